#!/usr/bin/env bash
# Keeps a TPU slice training until its run is done; scripts/tpu.sh keep starts it.
set -euo pipefail

usage() {
  cat <<'END'
scripts/tpu.sh keep NAME --type=v4-8 [--spot] [--hours=N] [--gcloud=FLAG ...] -- ARGS
  Asks for the slice, sets it up and runs `python -m launch.train ARGS` on it. Where the slice was
  taken away, deletes what is left of it, asks for another, and goes on with the run. The run lives
  in a bucket: ARGS have --workdir=gs://BUCKET/...; its name is NAME unless --config.run_name is given.
  Where others train on the slice, waits for the end of that.

  --hours=N      so long after each start of this command training saves and stops, and the slice
                 is deleted, whatever went wrong; but not where others train, or may
  --gcloud=FLAG  goes to gcloud when it creates the slice, as --gcloud=--network=N

  It ends, with the exit code of training,
    0   when the run is done; the slice is deleted
    42  when the hours are over; or when training was stopped, or given up by its supervisor
        (docs/pods.md), though the slice is there; the slice stays
    1   when training failed, when set-up or the start of training fails again and again or the
        workers were never reached (the slice stays), or when the first request is refused
  With --hours it goes on looking instead, trains on where that is mended, and deletes the slice at
  their end.
  Ctrl-C ends the keeping and nothing else. The same command, here or on another computer, goes on
  with it, whatever the slice does meanwhile.
END
}

say() { printf '%(%T)T keep: %s\n' -1 "$*"; }
fail() {
  echo "tpu.sh: $*" >&2
  exit 1
}

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ ${1:-} != --help ]] || { usage && exit; }

name=$1 && shift
place=() created=() flags=() hours='' has_end='' dry_run='' arguments=()
while (($#)); do
  option=$1
  shift
  case $option in
    --zone=* | --project=*) place+=("$option") ;;
    --dry-run) place+=("$option") && dry_run=yes ;;
    --type=* | --spot) created+=("$option") ;;
    --hours=*) hours=${option#*=} has_end=yes ;;
    --gcloud=*) flags+=("${option#*=}") ;;
    --) arguments=("$@") && break ;;
  esac
done
[[ ! $has_end || $hours =~ ^0*[1-9][0-9]*$ ]] ||
  fail "--hours takes whole hours, 1 or more, not '$hours'"
[[ " ${arguments[*]}" == *" --workdir"[=\ ]"gs://"* ]] ||
  fail "keep needs -- --workdir=gs://BUCKET/...: the disks of a slice go with it"
[[ " ${arguments[*]}" != *" --resume"* && " ${arguments[*]}" != *" --config.resume"* ]] ||
  fail "keep goes on with the run of --config.run_name by itself"
[[ " ${arguments[*]}" == *" --config.run_name"[=\ ]* ]] || arguments+=("--config.run_name=$name")
arguments+=(--resume=auto)

child=''
stop_keeping() {
  [[ -z $child ]] || kill -s TERM -- "-$child" 2>/dev/null || true
  say "no longer kept; the slice and its training are as they were. The same command goes on"
  exit "$1"
}
trap 'stop_keeping 130' INT
trap 'stop_keeping 143' TERM

# A command in a process group of its own, so that a signal reaches us at once, and it through us.
step() {
  local code=0
  set -m
  "$@" </dev/null &
  set +m
  child=$!
  wait "$child" || code=$?
  child=''
  return "$code"
}

tpu() { step "$here/tpu.sh" "$1" "$name" "${place[@]}" "${@:2}"; }

create() { tpu create "${created[@]}" --no-wait -- "${flags[@]}"; }
train() { tpu train -- "${arguments[@]}"; }

if [[ $dry_run ]]; then
  create && tpu setup && train
  exit
fi

answer=$(mktemp)
trap 'rm -f "$answer" "$answer.errors"' EXIT

# What gcloud says about the slice, left in `said`; `none` where there is none. That it cannot say is
# no reason to end, unless it never could.
said='' answered=''
ask() {
  if step gcloud compute tpus "$1" describe "$name" "${place[@]}" "--format=value($2)" \
    >"$answer" 2>"$answer.errors"; then
    said=$(<"$answer") answered=yes
  elif grep -q NOT_FOUND "$answer.errors"; then
    said=none answered=yes
  else
    cat "$answer.errors" >&2
    [[ $answered ]] || fail "gcloud cannot say how $name is, for the reason above"
    said='not known'
  fi
}

# How training is on all workers together, left in `said`.
ask_workers() {
  if ! step "$here/tpu.sh" status "$name" "${place[@]}" -- "${arguments[@]}" \
    >"$answer" 2>"$answer.errors"; then
    said='not reached'
    return
  fi
  local words
  words=$(grep -oE '(busy|otherwise|idle|failed|stopped|done)$' "$answer" | sort -u | tr '\n' ' ') || true
  case $words in
    *otherwise*) said='waiting for the end of other training or set-up' ;;
    *failed*) said=failed ;;
    *busy*idle*) said='begun in part' ;;
    *busy*) said=busy ;;
    'done ') said='done' ;;
    *idle* | '') said=idle ;;
    *) said=stopped ;;
  esac
}

told=''
tell() {
  [[ $told == "$1" ]] || say "$1"
  told=$1
}

patience=20
rest() { step sleep "$patience"; }

had_one=''    # whether there was a slice since this command began
was_active='' # whether it was ready
asked_here='' # whether this command has asked for it
refusals=0
ask_for_it() {
  [[ ! $trouble ]] || { say "$name is gone" && exit "$code"; }
  create && asked_here=yes && return
  ask queued-resources state.state
  [[ $said == none ]] || return 0
  [[ $had_one ]] || fail "$name was refused, for the reason above"
  wait_longer
}

wait_longer() {
  patience=$((60 * 2 ** (refusals < 4 ? refusals++ : 4)))
  say "$name was refused, for the reason above: asked for again in $patience s"
}

# What was wrong with a request shows only later, or it was not met in the time that it gave.
look_at_failure() {
  ask queued-resources state.failedData.error.message
  tell "$name: FAILED: $said"
  delete
  [[ $was_active || -z $asked_here ]] || fail "$name was refused, for the reason above"
  wait_longer
}

delete() {
  is_others='' reached='' unreached=0 # of the next one nothing is known
  tpu delete || say "$name could not be deleted now"
}

# At the end, when nobody would try again later.
delete_for_good() {
  local tries=0
  until tpu delete; do
    ((++tries < 5)) || fail "$name COULD NOT BE DELETED and costs money: scripts/tpu.sh delete $name"
    rest
  done
}

failures=0 # in a row
set_up_and_train() {
  local what='set-up'
  tpu setup && what='the start of training' && train && failures=0 && return
  ((++failures < 5)) || need_help 1 "$what failed 5 times in a row, for the reason above"
  say "$what did not end well: looking at the slice again"
}

show_log() { tpu run --worker=0 -- tail -n 20 ../hackmatrix.log || true; }

is_over() { [[ $has_end ]] && ((SECONDS >= 3600 * 10#$hours)); }

reached=''   # whether workers have ever answered
is_others='' # whether they trained something else when they last did
unreached=0  # so often in a row they did not
look() {
  ask_workers
  [[ $said == 'not reached' ]] || reached=yes is_others='' unreached=0
  [[ $said != waiting* ]] || is_others=yes
  case $said in
    busy) trouble='' code=42 ;;
    failed) need_help 1 "training failed, and would fail again: mend, commit, scripts/tpu.sh setup $name" ;;
    done)
      show_log
      say "the run is done"
      delete_for_good
      exit 0
      ;;
  esac
}

trouble='' # that does not end by itself
code=42    # what the end of the hours returns
need_help() { # CODE TROUBLE
  [[ $trouble != "$2" ]] || return 0
  code=$1 trouble=$2
  [[ $said != failed && $said != stopped ]] || show_log
  if [[ $has_end && ($reached || $asked_here) ]]; then
    say "$trouble. The slice stays until the hours are over, and is then deleted"
  else
    say "$trouble. The slice stays: the same command again, or scripts/tpu.sh delete $name"
    exit "$code"
  fi
}

give_up_for_today() {
  say "$hours hours are over"
  ask queued-resources state.state
  local state=$said
  [[ $state != ACTIVE ]] || look
  [[ $said != 'not reached' || $reached || $asked_here ]] ||
    fail "$name cannot be reached, and others may train there. It stays: scripts/tpu.sh delete $name"
  if [[ $is_others ]]; then
    say "other training runs on $name, which stays"
    exit 42
  fi
  if [[ $state == ACTIVE ]]; then tpu stop || true; fi
  [[ $state == none ]] || delete_for_good
  exit "$code"
}

looks=0 # in a row that said the same; a slice that is being taken away stops its training first
look_at_workers() {
  look
  [[ $told == *" is $said" ]] || looks=0
  ((++looks))
  [[ $said != 'not reached' || $looks -gt 1 ]] || cat "$answer.errors" >&2
  tell "$name: ACTIVE, training is $said"
  patience=60
  case $said in
    stopped) ((looks < 5)) || need_help 42 "training was stopped, or given up" ;;
    idle) set_up_and_train ;;
    # Those that train refuse to start again. One that has lost its checkout needs to be set up with all.
    'begun in part') if ((looks < 5)); then train || true; else tpu stop || true; fi ;;
    'not reached') look_at_node ;;
  esac
}

# Where its workers do not answer.
look_at_node() {
  ask tpu-vm state
  case $said in
    PREEMPTED | TERMINATED | STOPPED | none)
      say "$name was taken away ($said)"
      delete
      ;;
    READY)
      [[ $reached ]] || ((++unreached < 10)) ||
        need_help 1 "$name is READY, but could not be reached 10 times in a row, for the reason above"
      ;;
  esac
}

say "the run is that of ${arguments[*]}"
while :; do
  ! is_over || give_up_for_today
  ask queued-resources state.state
  patience=20
  case $said in
    none) ask_for_it ;;
    'not known') ;;
    ACTIVE)
      had_one=yes was_active=yes refusals=0
      look_at_workers
      ;;
    FAILED) look_at_failure ;;
    SUSPENDING | SUSPENDED)
      had_one=yes was_active=yes
      tell "$name: $said"
      delete
      ;;
    *)
      had_one=yes
      tell "$name: $said"
      ;;
  esac
  rest
done
