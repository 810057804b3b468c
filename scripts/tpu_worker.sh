#!/usr/bin/env bash
# Starts and stops training on one worker of a TPU slice; scripts/tpu.sh runs it on all of them.
set -euo pipefail

usage() {
  cat <<'END'
scripts/tpu_worker.sh start ARGS      starts scripts/supervise.sh ARGS in the background; its output
                                      is added to hackmatrix.log beside the checkout
scripts/tpu_worker.sh status [ARGS]   prints "busy" during training, "in set-up" during set-up, or how
                                      training has ended since the machine was started: "done",
                                      "stopped" (it can continue) or "failed"; else "idle". With
                                      ARGS, only for training that was started with them: "busy
                                      otherwise" during other training, "idle" if other training
                                      ended
scripts/tpu_worker.sh stop [SECONDS]  makes training save and stop (TERM), or ends a set-up; after 120
                                      or SECONDS seconds kills what is left, and frees the TPU
scripts/tpu_worker.sh unlock          removes the lock file that a killed process left on the TPU,
                                      unless a process holds the TPU
END
}

say() { echo "$HOSTNAME: $*"; }
fail() {
  echo "$HOSTNAME: $*" >&2
  exit 1
}

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=${here%/*}
log=$checkout.log
# Locked by every process of training or set-up as long as it lives, so the lock cannot be stale. What
# the file says can be: the id of their session, and which of the two they are.
run=$checkout.run
# The exit code of the last run, and the boot id of the machine at that time.
ended=$checkout.ended
# The arguments that the last run was started with.
arguments=$checkout.arguments
life=$(</proc/sys/kernel/random/boot_id)
# In the tests a directory that stands in for the root of a TPU VM.
root=${TPU_ROOT:-}

# The processes that have a TPU or its lock open, one id a line.
holders() {
  find /proc/[0-9]*/fd \( -lname "$root/dev/accel*" -o -lname "$root/dev/vfio/*" \
    -o -lname "$root/tmp/libtpu_lockfile" \) 2>/dev/null | cut -d/ -f3 | sort -un
}

unlock() {
  local lock=$root/tmp/libtpu_lockfile pids
  compgen -G "$root/dev/accel*" >/dev/null || compgen -G "$root/dev/vfio/*" >/dev/null || return 0
  pids=$(holders || true)
  [[ -z $pids ]] || fail "the TPU is held by process ${pids//$'\n'/, }: end it first"
  [[ -e $lock ]] || return 0
  # In /tmp only the owner may remove a file, and that may be root.
  rm -f "$lock" 2>/dev/null || sudo -n rm -f "$lock" || fail "$lock cannot be removed: sudo rm $lock"
  say "removed the stale $lock"
}

start() {
  exec 9>>"$run"
  flock --nonblock 9 || fail "training or set-up runs here already: scripts/tpu.sh stop NAME"
  : >"$run"
  unlock
  rm -f "$ended"
  printf '%q\n' "$@" >"$arguments"
  SUPERVISE_ENDED=$ended setsid "$here/supervise.sh" "$@" >>"$log" 2>&1 </dev/null &
  echo "$! training" >"$run"
  say "training started, its output is in $log"
}

status() {
  local code='' when='' what='' other=''
  (($# == 0)) || [[ $(printf '%q\n' "$@") == "$(cat "$arguments" 2>/dev/null)" ]] || other=yes
  if [[ -e $run ]] && ! flock --nonblock "$run" true; then
    read -r _ what <"$run" || true
    if [[ $what == set-up ]]; then say "in set-up"; else say "busy${other:+ otherwise}"; fi
    return
  fi
  { read -r code when <"$ended"; } 2>/dev/null || true
  [[ $when == "$life" && ! $other ]] || code=''
  case $code in
    '') say idle ;;
    0) say 'done' ;;
    42 | 1[3-9]?) say stopped ;;
    *) say failed ;;
  esac
}

stop() {
  local patience=${1:-120}
  [[ $patience =~ ^[0-9]+$ ]] || fail "stop takes a whole number of seconds, not '$patience'"
  if [[ ! -e $run ]] || flock --nonblock "$run" true; then
    say "nothing runs here"
  else
    stop_what_runs "$patience"
  fi
  unlock
}

stop_what_runs() { # SECONDS
  local session='' what='' outcome='set-up has to be done again'
  read -r session what <"$run" || true
  [[ $session =~ ^[1-9][0-9]*$ ]] ||
    fail "what runs here has only just started: run stop again in a moment"
  # The supervisor signals the trainer; if only the trainer is left, it is signalled itself.
  if [[ $what == training && $(ps -o stat= -p "$session") == [!Z]* ]]; then
    kill -s TERM "$session" || true
  else
    pkill -TERM --session "$session" || true
  fi
  if flock --wait "$1" "$run" true; then
    [[ $what != training ]] || outcome=$(tail -n 1 "$log")
    say "stopped: $outcome"
  else
    pkill -KILL --session "$session" || true
    flock --wait 10 "$run" true || fail "$what cannot be killed: delete the slice"
    [[ $what != training ]] || outcome='the last checkpoint remains'
    say "killed, as it had not stopped within $1 s; $outcome"
  fi
}

case ${1:-} in
  start | status | stop | unlock) "$@" ;;
  --help) usage ;;
  *) fail "tpu_worker.sh takes start, status, stop or unlock, not '${1:-}'" ;;
esac
