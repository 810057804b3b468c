#!/usr/bin/env bash
# Asks gcloud and the workers for their state; scripts/tpu_keep.sh sources it and shares variables.
# shellcheck disable=SC2034,SC2154

# Not every computer has `timeout`. The longest step, a set-up, takes minutes.
limited=()
! command -v timeout >/dev/null || limited=(timeout -k 60 3600)

# Runs a command in a process group of its own, so that a signal reaches us at once, and the command
# through us. One that hangs is ended after an hour, or the end of --hours would not be noticed.
child=''
step() {
  local code=0
  set -m
  "${limited[@]}" "$@" </dev/null &
  set +m
  child=$!
  wait "$child" || code=$?
  child=''
  ((code != 124)) || say "the last command did not end within an hour, and was killed" >&2
  return "$code"
}

tpu() { step "$here/tpu.sh" "$1" "$name" "${place[@]}" "${@:2}"; }

exec 3>&1 # our output, also while that of a step is redirected
answer=$(mktemp)
trap 'rm -f "$answer" "$answer.errors"' EXIT

# Leaves in `said` what gcloud says about the slice; `none` if there is none. That gcloud fails is no
# reason to end, unless it has never answered.
said='' answered=''
ask() {
  if step gcloud compute tpus "$1" describe "$name" "${place[@]}" "--format=value($2)" \
    >"$answer" 2>"$answer.errors"; then
    said=$(<"$answer") answered=yes
  elif grep -q NOT_FOUND "$answer.errors"; then
    said=none answered=yes
  else
    cat "$answer.errors" >&2
    [[ $answered ]] || fail "gcloud cannot describe $name, for the reason above"
    said='not known'
  fi
}

# Leaves in `said` the state of training on all workers together.
ask_workers() {
  local words all=yes
  tpu status -- "${arguments[@]}" >"$answer" 2>"$answer.errors" || all=''
  words=$(grep -oE '(busy|otherwise|set-up|idle|failed|stopped|done)$' "$answer" | sort -u |
    tr '\n' ' ') || true
  case $words in
    *otherwise*) said='waiting for the end of other training' ;;
    *set-up*) said='waiting for the end of a set-up' ;;
    *) if [[ $all ]]; then say_of_all; else say_of_some; fi ;;
  esac
}

say_of_all() {
  case $words in
    *failed*) said=failed ;;
    *busy*idle*) said='begun in part' ;;
    *busy*) said=busy ;;
    'done ') said='done' ;;
    *idle* | '') said=idle ;;
    *) said=stopped ;;
  esac
}

# Not all workers answered, perhaps none.
say_of_some() {
  [[ ! $words ]] || reached=yes
  case $words in
    *busy* | '') said='not reached' ;;
    *) said='reached in part' ;; # and none of these trains
  esac
}
