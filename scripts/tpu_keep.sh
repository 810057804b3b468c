#!/usr/bin/env bash
# Keeps a TPU slice training until its run is done; scripts/tpu.sh keep starts it.
set -euo pipefail

usage() {
  cat <<'END'
scripts/tpu.sh keep NAME --type=v4-8 [--spot] [--hours=N] [--gcloud=FLAG ...] -- ARGS
  Requests the slice, sets it up and runs `python -m launch.train ARGS` on it. When the slice is
  taken away, deletes what is left of it, requests another, and continues the run. The run lives in
  a bucket: ARGS must have --workdir=gs://BUCKET/.... It is called NAME unless --config.run_name is
  given. While others train on the slice, waits until they have finished.

  --hours=N      N hours after this command starts, training saves and stops, and the slice is
                 deleted, whatever went wrong; but not if others train on it, or might
  --gcloud=FLAG  goes to gcloud when it creates the slice, as --gcloud=--network=N

  It ends, with the exit code of training,
    0   when the run is done; the slice is deleted, unless others train there by then
    42  when the hours are over; or when training was stopped, or given up by its supervisor
        (docs/pods.md), or some workers cannot be reached and the rest does not train; the slice stays
    1   when training failed; when set-up, the start of training or training itself fails repeatedly,
        or the workers were never reached (the slice stays); or when the first request is refused
  With --hours it keeps checking instead, trains again once the cause is fixed, and deletes the slice
  when they are over.
  Ctrl-C ends this command and nothing else. The same command, here or on another computer, takes
  over again, whatever happened to the slice meanwhile.
END
}

say() { printf '%(%F %T)T keep: %s\n' -1 "$*"; }
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
[[ ! $has_end || $hours =~ ^0*[1-9][0-9]{0,5}$ ]] ||
  fail "--hours takes whole hours, from 1 to 999999, not '$hours'"
[[ " ${arguments[*]}" == *" --workdir"[=\ ]"gs://"* ]] ||
  fail "keep needs -- --workdir=gs://BUCKET/...: the disks of a slice go with it"
[[ " ${arguments[*]}" != *" --resume"* && " ${arguments[*]}" != *" --config.resume"* ]] ||
  fail "keep continues the run of --config.run_name by itself: leave out resume"
[[ " ${arguments[*]}" == *" --config.run_name"[=\ ]* ]] || arguments+=("--config.run_name=$name")
arguments+=(--resume=auto)

# shellcheck source=scripts/tpu_ask.sh
source "$here/tpu_ask.sh"

stop_keeping() {
  [[ -z $child ]] || kill -s TERM -- "-$child" 2>/dev/null || true
  say "stopped; the slice and its training are left as they are. The same command takes over again" >&3 || true
  exit "$1"
}
trap 'stop_keeping 130' INT
trap 'stop_keeping 143' TERM
trap 'stop_keeping 129' HUP

last_commit() { git -C "$here" rev-parse HEAD; }
commit=$(last_commit) # for each new slice, whatever is committed here meanwhile

create() { tpu create "${created[@]}" --no-wait -- "${flags[@]}"; }
set_up() { tpu setup "--commit=$commit"; }
train() { tpu train "--commit=$commit" -- "${arguments[@]}"; }

if [[ $dry_run ]]; then
  create && set_up && train
  exit
fi

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
  say "$name was refused, for the reason above: requesting it again in $patience s"
}

# A request fails some time later: it was wrong, or was not met within its own time limit.
look_at_failure() {
  ask queued-resources state.failedData.error.message
  tell "$name: FAILED: $said"
  delete
  [[ $was_active || -z $asked_here ]] || fail "$name was refused, for the reason above"
  wait_longer
}

delete() {
  is_others='' by_hand='' reached='' unreached=0 failures=0 # nothing is known of the next slice
  [[ $trouble != part* ]] || trouble='' code=42              # this trouble is gone with it
  tpu delete || say "$name could not be deleted now"
}

failures=0 # in a row, until training runs
failed=''  # what failed last
set_up_and_train() {
  ((failures++ < 5)) || need_help 1 "$failed 5 times in a row, for the reason above"
  [[ ! $trouble$by_hand ]] || take_last_commit
  failed='set-up failed'
  set_up && failed='the start of training failed' && train &&
    failed='training ended without an exit code' && return
  say "$failed: checking the slice again"
}

# It may mend what has failed.
take_last_commit() {
  [[ $commit != "$(last_commit)" ]] || return 0
  commit=$(last_commit)
  say "from now on slices get the last commit, ${commit:0:7}"
}

show_log() { tpu run --worker=0 -- tail -n 20 ../hackmatrix.log || true; }

reached=''   # whether workers have ever answered
is_others='' # whether others trained there or set it up when they last did
unreached=0  # how often in a row they did not answer, or not all of them
by_hand=''   # whether somebody has stopped training or set the slice up since it trained
look() {
  ask_workers
  case $said in
    'not reached' | 'reached in part') ((++unreached)) ;;
    *) reached=yes is_others='' unreached=0 ;;
  esac
  case $said in
    *'other training') is_others=yes ;;
    *set-up) # ours, if the connection was lost, or somebody else's
      [[ $asked_here ]] || is_others=yes
      ((failures)) || by_hand=yes
      ;;
    busy)
      [[ ! $by_hand ]] || take_last_commit # somebody has started training with it
      trouble='' by_hand='' code=42 failures=0
      ;;
    stopped) by_hand=yes ;;
    failed) by_hand=yes && need_help 1 "training failed, and would fail again: fix it, commit, scripts/tpu.sh setup $name" ;;
    done)
      ((code == 0)) || { show_log && say "the run is done"; }
      over=yes code=0
      ;;
  esac
}

trouble='' # what does not go away by itself
code=42    # the exit code at the end
need_help() { # CODE TROUBLE
  [[ $trouble != "$2" ]] || return 0
  code=$1 trouble=$2
  [[ $2 != training* ]] || show_log
  if [[ $has_end && ($reached || $asked_here) ]]; then
    say "$trouble. The slice stays until the hours are over, and is then deleted"
  else
    say "$trouble. The slice stays: run the same command again, or scripts/tpu.sh delete $name"
    exit "$code"
  fi
}

over='' # whether the slice is to be deleted
is_over() {
  [[ ! $over ]] || return 0
  [[ $has_end ]] && ((SECONDS >= 3600 * 10#$hours)) || return 1
  say "$hours hours are over"
  over=yes
}

# Deletes the slice: called until it is gone, however long the network is away. Looks at it anew each
# time, as somebody may have deleted it by now, or train there.
finish() {
  ask queued-resources state.state
  case $said in
    'not known') tell_of_costs ;;
    none) exit "$code" ;;
    ACTIVE) if end_training; then delete_for_good; fi ;;
    *) delete_for_good ;;
  esac
}

end_training() {
  look
  if [[ $is_others ]]; then
    say "others train on $name or set it up: it stays"
    exit "$code"
  fi
  if [[ $said == 'not reached' || $said == 'reached in part' ]]; then
    ((unreached >= 5)) || return 1
    [[ $reached || $asked_here ]] ||
      fail "$name cannot be reached, and others may train there. It stays: scripts/tpu.sh delete $name"
  fi
  [[ $said == 'done' ]] || tpu stop || true
}

delete_for_good() {
  ! tpu delete || exit "$code"
  ask queued-resources state.state
  [[ $said != none ]] || exit "$code"
  [[ $said == DELETING ]] || tell_of_costs
}

tell_of_costs() {
  tell "$name COULD NOT BE DELETED and costs money: trying again every minute, or run scripts/tpu.sh delete $name"
  patience=60
}

looks=0 # in a row with the same result; a slice that is being taken away stops its training first
look_at_workers() {
  look
  [[ $told == *" is $said" ]] || looks=0
  ((++looks % 60)) || told='' # a sign of life every hour
  [[ $said != *reached* || $looks -gt 1 ]] || cat "$answer.errors" >&2
  tell "$name: ACTIVE, training is $said"
  patience=60
  case $said in
    done) delete_for_good ;;
    stopped) ((looks < 5)) || need_help 42 "training was stopped, or given up" ;;
    idle) set_up_and_train ;;
    # Workers that train refuse to start again. If one has lost its checkout, all need to be set up.
    'begun in part') if ((looks < 5)); then train || true; else tpu stop || true; fi ;;
    *reached*) look_at_node "$said" ;;
  esac
}

# Looks at the machines when not all workers answer.
look_at_node() { # HOW FAR THEY WERE REACHED
  ask tpu-vm state
  case $said in
    PREEMPTED | TERMINATED | STOPPED | none)
      say "$name was taken away ($said)"
      delete
      ;;
    READY)
      if [[ $1 == 'reached in part' ]]; then
        ((looks < 10)) || need_help 42 "part of $name cannot be reached, and the rest does not train"
      elif [[ ! $reached ]]; then
        ((unreached < 10)) || need_help 1 "$name is READY, but could not be reached 10 times in a row, for the reason above"
      fi
      ;;
  esac
}

look_at_slice() {
  ask queued-resources state.state
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
}

say "training with ${arguments[*]}; slices get commit ${commit:0:7}"
while :; do
  patience=20
  if is_over; then finish; else look_at_slice; fi
  rest
done
