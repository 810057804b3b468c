"""scripts/tpu.sh keep against a gcloud that plays the service, and takes slices away."""

import pytest

from tests.scripts.stubs import Stubs, until
from tests.scripts.world import KEEP, TRAINING, World


def test_a_slice_is_created_set_up_and_trained_on_until_the_run_is_done(
    world: World, stubs: Stubs
) -> None:
    world.will("statuses", "idle", "busy", "busy done", "done done")
    ended = world.keep("--gcloud=--network=own")
    assert ended.returncode == 0, ended.stderr
    assert world.did() == ["create", "set up", "train", "delete"]
    (asked,) = [call for call in stubs.calls("gcloud") if "create" in call]
    assert {"--accelerator-type=v4-32", "--spot", "--network=own"} < set(asked)
    (command,) = [call[-1] for call in stubs.calls("gcloud") if "tpu_worker.sh start" in call[-1]]
    start = ["--command=hackmatrix/scripts/tpu_worker.sh", "start"]
    assert command.split() == [*start, *TRAINING, "--config.run_name=pod", "--resume=auto"]
    assert "pod: WAITING_FOR_RESOURCES" in ended.stdout
    assert "the run is done" in ended.stdout
    assert "+ gcloud compute tpus queued-resources create pod" in ended.stderr


def test_a_slice_that_is_taken_away_in_training_is_replaced_and_the_run_goes_on(
    world: World,
) -> None:
    # What is taken away stops its training first.
    world.will("statuses", "idle", "busy", "stopped", "taken", "idle", "busy", "done")
    ended = world.keep()
    assert ended.returncode == 0, ended.stderr
    once = ["create", "set up", "train", "delete"]
    assert world.did() == once * 2
    assert "pod was taken away (PREEMPTED)" in ended.stdout


def test_a_slice_that_is_taken_away_in_its_set_up_is_replaced(world: World) -> None:
    world.will("statuses", "idle", "idle", "done")
    world.will("set-ups", "taken", "")
    ended = world.keep()
    assert ended.returncode == 0, ended.stderr
    assert world.did() == ["create", "set up", "delete", "create", "set up", "train", "delete"]
    assert "pod: SUSPENDED" in ended.stdout


@pytest.mark.parametrize(
    ("answer", "reason", "did"),
    [
        ("refused", "ERROR: RESOURCE_EXHAUSTED: Quota limit", ["create"]),
        ("FAILED", "pod: FAILED: not met in time", ["create", "delete"]),
    ],
)
def test_a_first_request_that_is_refused_or_fails_later_ends_it_with_the_reason(
    world: World, answer: str, reason: str, did: list[str]
) -> None:
    world.will("creations", answer)
    ended = world.keep()
    assert ended.returncode == 1
    assert reason in ended.stdout + ended.stderr
    assert ended.stderr.endswith("tpu.sh: pod was refused, for the reason above\n")
    assert world.did() == did


@pytest.mark.parametrize(
    ("answer", "did"), [("refused", ["create"]), ("FAILED", ["create", "delete"])]
)
def test_a_later_request_that_is_refused_or_fails_is_made_again_ever_more_slowly(
    world: World, stubs: Stubs, answer: str, did: list[str]
) -> None:
    world.will("creations", "", answer, answer, "")
    world.will("statuses", "busy", "taken", "done")
    assert world.keep().returncode == 0
    assert world.did() == ["create", "delete", *did * 2, "create", "delete"]
    assert [each for each in pauses(stubs) if each > 20] == [60, 60, 60, 120]


def pauses(stubs: Stubs) -> list[int]:
    return [int(seconds) for _, seconds in stubs.calls("sleep")]


def test_a_request_that_is_refused_often_is_made_again_every_16_minutes(
    world: World, stubs: Stubs
) -> None:
    world.will("creations", "", *["refused"] * 7, "")
    world.will("statuses", "busy", "taken", "done")
    assert world.keep().returncode == 0
    assert [each for each in pauses(stubs) if each > 60] == [120, 240, 480, 960, 960, 960]


def test_after_a_slice_was_there_the_pauses_begin_anew(world: World, stubs: Stubs) -> None:
    world.will("creations", "", "refused", "refused", "", "refused", "")
    world.will("statuses", "busy", "taken", "busy", "taken", "done")
    assert world.keep().returncode == 0
    assert [each for each in pauses(stubs) if each > 60] == [120]


def test_on_another_computer_it_goes_on_with_what_the_slice_does(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("statuses", "busy", "done")
    assert world.keep().returncode == 0
    assert world.did() == ["delete"]


def test_what_went_wrong_with_training_stays_to_be_looked_at(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("statuses", "busy", "failed busy idle")
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == []
    assert (
        "training failed, and would fail again: fix it, commit, scripts/tpu.sh setup pod. The"
        in ended.stdout
    )


def test_training_that_somebody_has_stopped_is_not_started_again(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("statuses", *["stopped"] * 5)
    assert world.keep().returncode == 42
    assert world.did() == []


def test_training_that_goes_on_after_a_stop_is_kept(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("statuses", *["stopped"] * 3, "busy", *["stopped"] * 3, "busy", "done")
    assert world.keep().returncode == 0


def test_a_worker_that_was_started_anew_joins_the_others(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("statuses", "busy idle", "busy", "done")
    assert world.keep().returncode == 0
    assert world.did() == ["train", "delete"]


def test_a_worker_that_cannot_join_has_all_begin_anew(world: World) -> None:
    """As one that has lost its checkout."""
    world.will("states", "ACTIVE")
    world.will("statuses", *["busy idle"] * 5, "stopped idle", "busy", "done")
    assert world.keep().returncode == 0
    assert world.did() == [*["train"] * 4, "stop", "set up", "train", "delete"]


def test_workers_that_cannot_be_reached_for_a_while_lose_nothing(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("node", "READY")
    world.will("statuses", "busy", *["cut", "busy cut"] * 6, "idle cut", "busy", "done")
    ended = world.keep()
    assert ended.returncode == 0
    assert world.did() == ["delete"]
    assert ended.stdout.count("training is not reached") == 1
    assert ended.stderr.count("ERROR: ssh: connection refused") == 2  # and again in part


def test_part_of_the_workers_that_stays_away_while_the_rest_does_not_train_ends_it(
    world: World,
) -> None:
    world.will("states", "ACTIVE")
    world.will("node", "READY")
    world.will("statuses", "busy", *["stopped cut"] * 99)
    ended = world.keep()
    assert ended.returncode == 42
    assert world.did() == []
    assert "part of pod cannot be reached, and the rest does not train" in ended.stdout


def test_workers_that_were_never_reached_end_it_with_the_whole_reason(world: World) -> None:
    world.will("states", "ACTIVE")
    world.will("node", "READY")
    world.will("statuses", *["cut"] * 99)
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == []
    assert ended.stderr.count("ERROR: ssh: connection refused") == 1
    assert ended.stdout.endswith(
        " keep: pod is READY, but could not be reached 10 times in a row, for the reason above. The"
        " slice stays: run the same command again, or scripts/tpu.sh delete pod\n"
    )


@pytest.mark.parametrize("state", ["TERMINATED", "STOPPED"])
def test_a_slice_whose_machines_do_not_run_is_replaced(world: World, state: str) -> None:
    world.will("states", "ACTIVE")
    world.will("node", state)
    world.will("statuses", "cut", "done")
    ended = world.keep()
    assert ended.returncode == 0
    assert world.did() == ["delete", "create", "delete"]
    assert f"pod was taken away ({state})" in ended.stdout


@pytest.mark.parametrize(
    ("step", "name", "tries"),
    [
        ("set-ups", "set-up", ["set up"]),
        ("starts", "the start of training", ["set up", "train"]),
    ],
)
def test_a_step_that_fails_again_and_again_ends_it(
    world: World, step: str, name: str, tries: list[str]
) -> None:
    """Here it fails once, works, and then fails for good."""
    world.will("states", "ACTIVE")
    world.will("statuses", "idle", "idle", "busy", *["idle"] * 12)
    world.will(step, "cut", "", *["cut"] * 9)
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == [*tries, "set up", "train", *tries * 5]
    assert f"{name} failed 5 times in a row, for the reason above. The slice stays" in ended.stdout


def test_training_that_ends_again_and_again_and_notes_nothing_ends_it(world: World) -> None:
    """As one whose whole session is killed."""
    world.will("states", "ACTIVE")
    world.will("statuses", *["idle"] * 12)
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == ["set up", "train"] * 5
    assert "training ended without an exit code 5 times in a row, for the" in ended.stdout
    assert "tail -n 20 ../hackmatrix.log" in ended.stderr


def test_what_failed_on_a_slice_that_was_taken_away_is_not_held_against_the_next(
    world: World,
) -> None:
    world.will("statuses", *["idle"] * 7, "done")
    world.will("set-ups", *["cut"] * 3, "taken", *["cut"] * 2)
    assert world.keep().returncode == 0
    assert world.did().count("create") == 2


def test_an_interrupt_ends_the_keeping_and_nothing_else(world: World, stubs: Stubs) -> None:
    world.will("states", "ACTIVE")
    world.will("statuses", *["busy"] * 9)
    stubs.add("sleep", "exec /bin/sleep 20")
    kept = stubs.start(world.tpu, *KEEP, "--", *TRAINING)
    until(lambda: bool(stubs.calls("sleep")))
    kept.terminate()
    said, _ = kept.communicate(timeout=10)
    assert kept.returncode == 143
    assert "the slice and its training are left as they are" in said
    assert world.did() == []


def test_a_gcloud_that_never_answers_is_not_asked_for_ever(world: World, stubs: Stubs) -> None:
    stubs.add("gcloud", "echo 'ERROR: you are not logged in' >&2; exit 1")
    ended = world.keep()
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[0] == "ERROR: you are not logged in"
