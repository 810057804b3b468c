"""A fake gcloud for scripts/tpu.sh keep, which simulates the service and preempts slices."""

import subprocess
from pathlib import Path

from tests.scripts.stubs import Stubs

TRAINING = ("--config=configs/v4_32.py", "--workdir=gs://bucket/runs")
KEEP = ("keep", "pod", "--type=v4-32", "--spot")

# Simulates the service in the directory `world`. The file `states` lists the next states of the
# slice, and exists as long as the slice does. The lines of the files creations, set-ups, starts and
# statuses are the next answers; those of describes and deletes are the next failures.
SERVICE = """
cd '{world}'
next() {{ head -n 1 "$1" 2>/dev/null; sed -i 1d "$1" 2>/dev/null; }}
fail() {{ echo "ERROR: $*" >&2; exit 1; }}
take() {{ echo SUSPENDED >states; echo PREEMPTED >node; fail the TPU is in state PREEMPTED; }}
case "$*" in
  *queued-resources\\ describe*failedData*) echo not met in time; exit ;;
  *queued-resources\\ describe*)
    [[ $(next describes) != cut ]] || fail gcloud crashed: there is no network
    [[ -e states ]] || fail NOT_FOUND: there is no pod
    head -n 1 states
    (($(wc -l <states) == 1)) || sed -i 1d states
    exit ;;
  *queued-resources\\ create*)
    answer=$(next creations)
    [[ $answer != refused ]] || fail RESOURCE_EXHAUSTED: Quota limit
    printf '%s\\n' WAITING_FOR_RESOURCES "${{answer:-ACTIVE}}" >states
    echo READY >node
    echo life >>lives
    exit ;;
  *queued-resources\\ delete*)
    answer=$(next deletes)
    [[ $answer != cut ]] || fail gcloud crashed: there is no network
    [[ $answer != gone ]] || {{ rm states; fail NOT_FOUND: there is no pod; }}
    for run in slice/*/hackmatrix.run; do
      ! read -r session _ <"$run" || pkill -KILL --session "$session"
    done
    rm -rf states slice
    exit ;;
  *tpu-vm\\ describe*)
    cat node
    exit ;;
esac
"""
WORKERS = """
case "$*" in
  *tpu_worker.sh\\ status*) answer=$(next statuses) ;;
  *tpu_worker.sh\\ start*) answer=$(next starts) ;;
  *tpu_setup.sh*) answer=$(next set-ups) ;;
esac
case $answer in
  taken) take ;;
  *) for word in $answer; do
    [[ $word != cut ]] || fail ssh: connection refused
    echo "t1v-n-5f3e-w-0: $word"
  done ;;
esac
"""
# Runs ssh and scp commands on the workers, each of which is a home directory.
SLICE = """
for word; do case $word in
  --worker=all) workers='w-0 w-1' ;;
  --worker=*) workers=w-${{word#*=}} ;;
  --command=*) line=${{word#*=}} ;;
esac; done
code=0
for worker in $workers; do
  home='{slice}'/$worker && mkdir -p "$home" && cd "$home"
  case $4 in
    ssh) HOME=$home HOSTNAME=t1v-n-5f3e-$worker setsid --wait bash -c "$line" || code=$? ;;
    scp) cp "$5" "$home/${{6#*:}}" ;;
  esac
done
exit $code
"""


class World:
    """The simulated service: the answers it will give, and the commands it was given."""

    def __init__(self, stubs: Stubs, checkout: Path, directory: Path) -> None:
        self.stubs, self.directory = stubs, directory
        self.tpu = checkout / "scripts/tpu.sh"
        directory.mkdir()
        stubs.add("sleep")
        self.play(WORKERS)

    def play(self, workers: str) -> None:
        """Sets the script by which the workers of a slice answer."""
        self.stubs.add("gcloud", SERVICE.format(world=self.directory) + workers)

    def queue(self, what: str, *answers: str) -> None:
        (self.directory / what).write_text("".join(f"{answer}\n" for answer in answers))

    def keep(self, *more: str, seconds: int = 0) -> subprocess.CompletedProcess[str]:
        return self.stubs.run(self.tpu, *KEEP, *more, "--", *TRAINING, SECONDS=str(seconds))

    def keep_until_the_end_of_its_hours(
        self, pause: int = 1, lasts: int = 2
    ) -> subprocess.CompletedProcess[str]:
        """Its hours end in the pause of this number, the only one that takes any time."""
        naps = self.directory / "naps"
        is_it = f"(($(wc -l <'{naps}') == {pause}))"
        self.stubs.add("sleep", f"echo >>'{naps}'; ! {is_it} || exec /bin/sleep {lasts}")
        return self.keep("--hours=1", seconds=3600 - lasts)

    def did(self) -> list[str]:
        """Returns the kinds of commands so far that changed something."""
        kinds = {
            "queued-resources create": "create",
            "queued-resources delete": "delete",
            "tpu_setup.sh": "set up",
            "tpu_worker.sh start": "train",
            "tpu_worker.sh stop": "stop",
        }
        calls = [" ".join(call) for call in self.stubs.calls("gcloud")]
        return [kind for call in calls for part, kind in kinds.items() if part in call]
