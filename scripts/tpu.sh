#!/usr/bin/env bash
# Manages a TPU slice by gcloud, from its creation to its deletion. Runs on your own computer.
set -euo pipefail

usage() {
  cat <<'END'
scripts/tpu.sh COMMAND NAME [--zone=ZONE] [--project=PROJECT] [--dry-run] ...

  keep NAME --type=v4-8 [--spot] [--hours=N] [--gcloud=FLAG ...] -- ARGS
                          creates a slice, sets it up and trains, and repeats that when it is taken
                          away, until the run is done or N hours are over: scripts/tpu_keep.sh --help
  create NAME --type=v4-8 [--spot] [--no-wait] [-- FLAGS]
                          requests a slice (a queued resource) and waits until it is ready; once
                          requested, only waits. FLAGS go to gcloud, as --valid-until-duration=6h
                          Types: v4-8, v5e-8 (gcloud's v5litepod-8), v5p-8, v6e-8 and larger ones
  setup NAME [--commit=C] copies the last commit, or C, to all workers and runs scripts/tpu_setup.sh
  run NAME [--worker=all] -- PROGRAM ARGS
                          runs a program on the workers, in their checkout
  train NAME [-- ARGS]    starts `python -m launch.train ARGS` on all workers, in the background,
                          under scripts/supervise.sh. Give --commit=C if C was set up
  status NAME [-- ARGS]   prints for each worker whether it is busy, or how training ended; with ARGS,
                          only for training started by `train NAME -- ARGS`
  logs NAME [--worker=0]  follows the output of training (Ctrl-C stops following, not training)
  stop NAME [--wait=120]  makes training save and stop, or ends a set-up; kills it after --wait s
  fetch NAME FROM [TO]    copies a run, or the runs of a directory of runs, into TO (runs). FROM is a
                          path in the home directory of worker 0 (hackmatrix/runs/RUN) or a bucket
                          (gs://...)
  delete NAME             deletes the slice, and with it the disks of its workers

Each prints the gcloud commands that it runs; --dry-run only prints them. Without --zone and --project
gcloud's own settings apply (gcloud config set compute/zone us-central2-b).
END
}

say() { echo "$*"; }
fail() {
  echo "tpu.sh: $*" >&2
  exit 1
}

((BASH_VERSINFO[0] * 10 + BASH_VERSINFO[1] >= 44)) || fail "needs bash 4.4 or newer"
here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CLOUDSDK_CORE_DISABLE_PROMPTS=1

quoted() {
  local word
  for word; do
    [[ $word =~ ^[A-Za-z0-9_./:=,@%+~-]+$ ]] || word=${word@Q}
    printf ' %s' "$word"
  done
}

run() {
  echo "+$(quoted "$@")" >&2
  [[ $dry_run ]] || "$@"
}

# A machine that was taken away closes no connection: give up after a minute without an answer.
patient=(ConnectTimeout=20 ServerAliveInterval=15 ServerAliveCountMax=4)
# A prompt, as for a passphrase, would block a command in the background for ever.
[[ -t 0 ]] || patient+=(BatchMode=yes)

on_workers() { # WORKER COMMAND (a line for the shell there)
  run gcloud compute tpus tpu-vm ssh "$name" "${place[@]}" "${patient[@]/#/--ssh-flag=-o}" \
    "--worker=$1" "--command=$2"
}

copy() { # FROM TO and flags
  run gcloud compute tpus tpu-vm scp "$@" "${place[@]}" "${patient[@]/#/--scp-flag=-o}"
}

command=${1:-}
case $command in
  --help | '') usage && exit ;;
  keep | create | setup | run | train | status | logs | stop | fetch | delete) shift ;;
  *) fail "there is no command '$command'; scripts/tpu.sh --help lists them" ;;
esac

only_for() { [[ " $* " == *" $command "* ]] || fail "$command takes no $option"; }

no_option() {
  local behind=''
  case $command in
    create) behind='flags of gcloud come after --' ;;
    run) behind='the program and its arguments come after --' ;;
    keep | train | status) behind='arguments for training come after --' ;;
  esac
  fail "there is no option '$option'${behind:+: $behind}; scripts/tpu.sh --help lists them"
}

place=() dry_run='' type='' spot=() waits=yes kept=() commit=HEAD worker='' patience=120 words=() rest=()
while (($#)); do
  option=$1
  shift
  case $option in
    --help) usage && exit ;;
    --dry-run) dry_run=yes ;;
    --zone=* | --project=*) place+=("$option") ;;
    --type=*) only_for create keep && type=${option#*=} ;;
    --spot) only_for create keep && spot=(--spot) ;;
    --no-wait) only_for create && waits='' ;;
    --hours=* | --gcloud=*) only_for keep && kept+=("$option") ;;
    --commit=*) only_for setup train && commit=${option#*=} ;;
    --worker=*) only_for run logs && worker=${option#*=} ;;
    --wait=*) only_for stop && patience=${option#*=} ;;
    --) only_for create keep run train status && rest=("$@") && break ;;
    -*) no_option ;;
    *) words+=("$option") ;;
  esac
done

name=${words[0]:-}
[[ $name ]] || fail "$command needs the name of a slice: scripts/tpu.sh $command NAME"
if [[ $command == fetch ]]; then
  ((${#words[@]} == 2 || ${#words[@]} == 3)) || fail "fetch takes NAME FROM [TO]"
else
  ((${#words[@]} == 1)) || fail "$command takes one name, not '${words[*]}'; arguments come after --"
fi
[[ $dry_run ]] || command -v gcloud >/dev/null ||
  fail "there is no gcloud on the PATH: install the Google Cloud CLI"

describe=(gcloud compute tpus queued-resources describe "$name" "${place[@]}"
  '--format=value(state.state)')

# Prints the runtime version for JAX, by the kind of chip.
runtime() {
  case $type in
    v5litepod-*) echo v2-alpha-tpuv5-lite ;;
    v5p-*) echo v2-alpha-tpuv5 ;;
    v6e-*) echo v2-alpha-tpuv6e ;;
    *) echo tpu-ubuntu2204-base ;;
  esac
}

create() {
  [[ $type ]] || fail "create needs a type: --type=v4-8 (v4-16, v5e-8, v5p-8, v6e-8 ...)"
  type=${type/#v5e-/v5litepod-} # gcloud's name for it
  if [[ ! $dry_run ]] && "${describe[@]}" >/dev/null 2>&1; then
    say "$name has already been requested"
  else
    run gcloud compute tpus queued-resources create "$name" "${place[@]}" "--node-id=$name" \
      "--accelerator-type=$type" "--runtime-version=$(runtime)" --async \
      "${spot[@]}" "${rest[@]}"
  fi
  [[ ! $waits ]] || wait_until_ready
}

wait_until_ready() {
  local state='' before='' failures=0
  echo "+$(quoted "${describe[@]}")" >&2
  while [[ ! $dry_run ]]; do
    if state=$("${describe[@]}"); then
      failures=0
    else
      ((++failures < 10)) || fail "gcloud failed to describe $name 10 times in a row"
      state='state unknown'
    fi
    [[ $state == "$before" ]] || say "$(date +%T) $name: $state"
    before=$state
    case $state in
      ACTIVE) return ;;
      FAILED | SUSPENDING | SUSPENDED | DELETING)
        fail "$name is $state and will not come back: scripts/tpu.sh delete $name, then create" ;;
    esac
    sleep 20
  done
}

need_commit() {
  git -C "$here" rev-parse --quiet --verify "$commit^{commit}" >/dev/null || # says why
    fail "there is no commit '$commit' here to send to the workers: use a git clone of the project"
}

need_all_commits() {
  need_commit
  [[ $(git -C "$here" rev-parse --is-shallow-repository) == false ]] ||
    fail "this clone is shallow, and the workers need the whole history: git fetch --unshallow"
}

# A bundle brings the commit itself, so a worker needs no access to the repository and still knows
# its revision. git makes it from a ref, which is set for that, as HEAD may be another commit.
setup() {
  local ref="refs/set-up/$name"
  need_all_commits
  bundle=$(mktemp -d)
  trap 'rm -rf "$bundle"' EXIT
  [[ -z $(git -C "$here" status --porcelain) ]] ||
    say "uncommitted changes stay here: the workers get $(git -C "$here" rev-parse --short "$commit")"
  run git -C "$here" update-ref "$ref" "$commit"
  run git -C "$here" bundle create --quiet "$bundle/hackmatrix.bundle" "$ref"
  run git -C "$here" update-ref -d "$ref"
  copy "$bundle/hackmatrix.bundle" "$name:hackmatrix.bundle" --worker=all
  # `stop` reads the note in hackmatrix.run. A git that was killed leaves its locks behind.
  on_workers all "exec 9>>hackmatrix.run; flock --nonblock 9 ||\
 { echo \"\$HOSTNAME: training or set-up runs here: scripts/tpu.sh stop $name\" >&2; exit 1; };\
 echo \$(ps -o sid= -p \$\$) set-up >hackmatrix.run; rm -f hackmatrix/.git/*.lock;\
 git init --quiet hackmatrix &&\
 git -C hackmatrix fetch --quiet ../hackmatrix.bundle $ref &&\
 git -C hackmatrix checkout --quiet --force --detach FETCH_HEAD && rm -f hackmatrix.ended &&\
 hackmatrix/scripts/tpu_setup.sh"
}

run_program() {
  ((${#rest[@]})) || fail "run needs a program: scripts/tpu.sh run NAME -- PROGRAM ARGS"
  on_workers "${worker:-all}" "cd hackmatrix &&$(quoted "${rest[@]}")"
}

given() { # FLAG: its values in the arguments for training, as --FLAG=VALUE or in two words
  local word is_next=''
  for word in "${rest[@]}"; do
    [[ ! $is_next ]] || echo "$word"
    is_next=''
    case $word in
      "--$1") is_next=yes ;;
      "--$1="*) echo "${word#*=}" ;;
    esac
  done
}

# Reports what would end training at its start, before a slice costs anything.
check_arguments() {
  local value file
  while IFS= read -r value; do
    file=${value%%:*} # configs/FILE.py:TEXT passes TEXT to get_config()
    [[ $file == /* ]] || git -C "$here/.." cat-file blob "$commit:./$file" >/dev/null 2>&1 ||
      { need_commit && fail "there is no file '$file' in the commit that workers get: commit it\
 (and set up again), or give another --config"; }
  done < <(given config)
  while IFS= read -r value; do
    [[ $value != gs://* || $value == gs://[!/]* ]] ||
      fail "--workdir=$value names no bucket: give --workdir=gs://BUCKET/..."
  done < <(given workdir)
}

train() {
  check_arguments
  on_workers all "hackmatrix/scripts/tpu_worker.sh start$(quoted "${rest[@]}")"
}

status() {
  on_workers all "hackmatrix/scripts/tpu_worker.sh status$(quoted "${rest[@]}") 2>/dev/null ||\
 echo idle"
}

logs() {
  local follow='tail -n 50 -F hackmatrix.log'
  # Lines of several workers begin with the number that ends the worker's host name.
  [[ ${worker:-0} =~ ^[0-9]+$ ]] || follow+=" | sed -u \"s/^/\${HOSTNAME##*-}: /\""
  on_workers "${worker:-0}" "$follow"
}

stop() { on_workers all "hackmatrix/scripts/tpu_worker.sh stop$(quoted "$patience")"; }

bring() { # FROM TO
  run mkdir -p "$2"
  if [[ $1 == gs://* ]]; then
    # Compiled programs beside the runs, and parts of files that were not joined, are of no use here.
    run gcloud storage rsync --recursive '--exclude=.*\.(compiled|rest)/.*' "$1" "$2"
  else
    copy --recurse "$name:$1" "$2/" --worker=0
  fi
}

# A directory of runs is copied without its own name: --run=NAME looks for runs in TO itself.
fetch() {
  local from=${words[1]%/} to=${words[2]:-runs} runs=''
  local one=("$from" "$to") each=("$from/*" "$to")
  if [[ $from == gs://* ]]; then
    local look=(gcloud storage ls "$from/*/config.json")
    echo "+$(quoted "${look[@]}")" >&2
    # To gcloud finding none is an error like any other.
    [[ $dry_run ]] || runs=$("${look[@]}" 2>&1) || [[ $runs == *'matched no objects'* ]] ||
      fail "$from cannot be listed: $runs"
    one=("$from" "$to/${from##*/}") each=("$from" "$to")
  else
    runs=$(on_workers 0 "ls$(quoted "$from")/*/config.json 2>/dev/null || true")
  fi
  if [[ $dry_run ]]; then
    echo "if it finds any, $from is a directory of runs:" >&2
    bring "${each[@]}"
    echo "if it finds none, $from is a run:" >&2
    bring "${one[@]}"
  elif [[ $runs == *config.json* ]]; then
    bring "${each[@]}"
  else
    bring "${one[@]}"
  fi
}

delete() { run gcloud compute tpus queued-resources delete "$name" "${place[@]}" --force --quiet; }

keep() {
  [[ $type ]] || fail "keep needs a type: --type=v4-8 (v4-16, v5e-8, v5p-8, v6e-8 ...)"
  need_all_commits
  check_arguments
  [[ ! $dry_run ]] || place+=(--dry-run)
  exec "$here/tpu_keep.sh" "$name" "--type=$type" "${spot[@]}" "${place[@]}" "${kept[@]}" -- "${rest[@]}"
}

if [[ $command == run ]]; then run_program; else "$command"; fi
