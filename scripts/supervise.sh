#!/usr/bin/env bash
# Trains, and trains on after a fault: on every worker of a pod, or on one machine of any kind.
set -euo pipefail

usage() {
  cat <<'END'
scripts/supervise.sh ARGS
  Runs `python -m launch.train ARGS` and, by how it ends:
    0                    is done
    42, or by a signal   (preempted, a peer lost, killed) starts it again after a pause that doubles
                         each time, with --resume=RUN: the run that it began or went on with. Three
                         such ends in a row at the same step of the run are enough
    anything else        gives up: it would fail again
  It works in the checkout: files and directories are named from there, or by their whole path.
  SIGTERM and SIGINT are passed on to the trainer (SIGHUP as SIGTERM), and its exit code is returned.

Environment (seconds, but for the first):
  SUPERVISE_RESTARTS=10         so many restarts in a row without a good run are tried
  SUPERVISE_GOOD_RUN=1800       a run this long is a good one: restarts and pause count from the
                                start again. Longer than a watchdog waits, or a run that hangs is one
  SUPERVISE_PAUSE=5             before the first restart
  SUPERVISE_LONGEST_PAUSE=120   it doubles up to this; workers must not come back further apart than
                                the ones that are there wait for the others (300 s)
  PYTHON=.venv/bin/python       the interpreter
  SUPERVISE_ENDED=FILE          the exit code is written there, and in which life of the machine
END
}

# The terminal may be gone, or whoever read what is said.
trap '' PIPE
say() { printf '%(%F %T)T supervise: %s\n' -1 "$*" 2>/dev/null || true; }
fail() {
  echo "supervise.sh: $*" >&2
  exit 1
}

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
[[ ${1:-} != --help ]] || { usage && exit; }

asked='' # the signal that we were sent, if any
told=''  # the process that it was passed on to
interrupted=''

pass_on() {
  asked=$1 told=${!:-} interrupted=yes
  [[ -z $told ]] || kill -s "$asked" "$told" 2>/dev/null || true
}
trap 'pass_on TERM' TERM
trap 'pass_on INT' INT
trap 'pass_on TERM' HUP

# The trainer notes there the run that it trains and, in a second line, the step it goes on from. Not
# in /tmp if that can be helped, from where files go that nobody has touched for days.
notes=$(mktemp .supervise.XXXXXX 2>/dev/null) && notes=$PWD/$notes || notes=$(mktemp)
end() {
  rm -f "$notes"
  [[ -z ${SUPERVISE_ENDED:-} ]] ||
    echo "$1 $(</proc/sys/kernel/random/boot_id)" >"$SUPERVISE_ENDED"
}
trap 'end $?' EXIT

restarts=${SUPERVISE_RESTARTS:-10}
good_run=${SUPERVISE_GOOD_RUN:-1800}
first_pause=${SUPERVISE_PAUSE:-5}
longest_pause=${SUPERVISE_LONGEST_PAUSE:-120}
for number in "$restarts" "$good_run" "$first_pause" "$longest_pause"; do
  [[ $number =~ ^(0|[1-9][0-9]*)$ ]] || fail "SUPERVISE_... takes whole numbers, not '$number'"
done

python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null || fail "there is no $python: run make train once, or set PYTHON"

# Runs a command to its end, passing signals on; its exit status is left in `code`.
code=0
run() {
  # With -m it starts in a process group of its own, so that Ctrl-C reaches it once, through us; but
  # -m in `wait` would take a frozen process for one that has ended.
  set -m
  "$@" </dev/null &
  set +m
  # A signal that came just before the start was passed on to a process that is gone.
  [[ -z $asked || $told == "$!" ]] || pass_on "$asked"
  while :; do
    interrupted='' code=0
    wait "$!" || code=$?
    [[ $interrupted ]] || return 0
  done
}

ending() {
  if ((code > 128 && code <= 192)); then
    echo "was killed by SIG$(kill -l $((code - 128)))"
  else
    echo "exited $code"
  fi
}

worth_another_try() { ((code == 42 || (code > 128 && code <= 192))); }

export SUPERVISE_NOTES=$notes

resume=() # what the trainer is told besides, once it has begun a run
same=0    # so often in a row it ended in this way at this step
way=''
# One on a disk is noted before it has begun; whether it has nobody knows while the disk is away.
has_begun() { [[ $1 == gs://* || ! -e ${1%/*} || -e $1/config.json ]]; }
look_at_notes() {
  local noted='' step='' before=$way
  { read -r noted && read -r step; } <"$notes" || true
  if [[ $noted ]] && has_begun "$noted"; then resume=("--resume=$noted"); fi
  way="$(ending) at step $step"
  if [[ $step && $way == "$before" ]]; then ((++same)); else same=1; fi
}

tries=0
pause=$first_pause
while :; do
  say "starts: $python -m launch.train $* ${resume[*]}"
  started=$SECONDS
  : >"$notes"
  run "$python" -m launch.train "$@" "${resume[@]}"
  look_at_notes

  if [[ $asked ]]; then
    say "asked to stop by SIG$asked; the trainer $(ending)"
    exit "$code"
  elif ((code == 0)); then
    say "the trainer is done"
    exit 0
  elif ! worth_another_try; then
    say "the trainer $(ending): not tried again, it would fail again"
    exit "$code"
  fi

  if ((same >= 3)); then
    say "the trainer $way, $same times in a row: given up, it gets no further"
    exit "$code"
  fi
  if ((SECONDS - started >= good_run)); then
    tries=0 pause=$first_pause
  fi
  if ((++tries > restarts)); then
    say "the trainer $(ending): given up after $restarts restarts without a good run"
    exit "$code"
  fi

  say "the trainer $(ending): restart $tries of $restarts in $pause s"
  trainer_code=$code
  run sleep "$pause"
  [[ -z $asked ]] || exit "$trainer_code"
  pause=$((pause * 2 < longest_pause ? pause * 2 : longest_pause))
  "$here/tpu_worker.sh" unlock || true
done
