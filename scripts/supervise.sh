#!/usr/bin/env bash
# Trains, and restarts training after failures: on every worker of a pod, or on any one machine.
set -euo pipefail

usage() {
  cat <<'END'
scripts/supervise.sh ARGS
  Runs `python -m launch.train ARGS` and, by how it ends:
    0                    is done
    42, or by a signal   (preempted, a peer lost, killed) starts it again after a pause that doubles
                         each time, with --resume=RUN: the run that it began or continued. Gives up
                         after three such ends in a row at the same step of the run
    anything else        gives up: it would fail again
  It runs in the checkout: relative paths start there.
  SIGTERM and SIGINT are passed on to the trainer (SIGHUP as SIGTERM), and its exit code is returned.

Environment (times in seconds):
  SUPERVISE_RESTARTS=10         the most restarts in a row without a good run
  SUPERVISE_GOOD_RUN=1800       a run this long is good, and resets the number of restarts and the
                                pause. Must exceed watchdog_minutes, or a run that hangs is good, too.
                                (Before its first step it has to last an hour longer: a start that
                                hangs is ended after an hour.)
  SUPERVISE_PAUSE=5             the pause before the first restart
  SUPERVISE_LONGEST_PAUSE=120   the longest pause; must be less than workers wait for each other at
                                the start (300 s)
  PYTHON=.venv/bin/python       the interpreter
  SUPERVISE_ENDED=FILE          the file to write the exit code and the machine's boot id to
END
}

# The terminal, or the reader of our output, may be gone.
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

# The trainer writes its run there and, in a second line, the step that it goes on from. Not in /tmp
# if possible, where files that were not touched for days are deleted.
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
  [[ $number =~ ^(0|[1-9][0-9]*)$ ]] || fail "SUPERVISE_... must be whole numbers, not '$number'"
done

python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null || fail "there is no $python: run make train once, or set PYTHON"

# Runs a command to its end, passing signals on; its exit status is left in `code`.
code=0
run() {
  # With job control (-m) it gets its own process group, so that Ctrl-C reaches it once, through us.
  # During `wait` that is off: with it a suspended process would count as one that has ended.
  set -m
  "$@" </dev/null &
  set +m
  # A signal just before the start went to no process, or to one that is gone.
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

resume=() # added to the arguments, once the trainer has begun a run
step=''   # from which its last session went on, if it came that far
same=0    # how often in a row it ended in this way at this step
way=''
longest_start=3600 # then the trainer's watchdog ends a start that hangs
# A run on a disk is noted before it has begun. While the disk is away, it counts as begun.
has_begun() { [[ $1 == gs://* || ! -e ${1%/*} || -e $1/config.json ]]; }
look_at_notes() {
  local noted='' before=$way
  step=''
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
  if ((SECONDS - started >= good_run + (${#step} ? 0 : longest_start))); then
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
