"""scripts/tpu.sh keep with a fake gcloud that simulates the service and preempts slices."""

import signal

import pytest

from tests.scripts.stubs import Stubs, until
from tests.scripts.world import KEEP, TRAINING, World


def test_a_slice_is_created_set_up_and_trained_on_until_the_run_is_done(
    world: World, stubs: Stubs
) -> None:
    world.queue("statuses", "idle", "busy", "busy done", "done done")
    ended = world.keep("--gcloud=--network=own")
    assert ended.returncode == 0, ended.stderr
    assert world.did() == ["create", "set up", "train", "delete"]
    (request,) = [call for call in stubs.calls("gcloud") if "create" in call]
    assert {"--accelerator-type=v4-32", "--spot", "--network=own"} < set(request)
    (command,) = [call[-1] for call in stubs.calls("gcloud") if "tpu_worker.sh start" in call[-1]]
    start = ["--command=hackmatrix/scripts/tpu_worker.sh", "start"]
    assert command.split() == [*start, *TRAINING, "--config.run_name=pod", "--resume=auto"]
    assert "pod: WAITING_FOR_RESOURCES" in ended.stdout
    assert "the run is done" in ended.stdout
    assert "+ gcloud compute tpus queued-resources create pod" in ended.stderr


def test_a_slice_preempted_during_training_is_replaced_and_the_run_resumed(world: World) -> None:
    # A slice that is preempted stops its training first.
    world.queue("statuses", "idle", "busy", "stopped", "taken", "idle", "busy", "done")
    ended = world.keep()
    assert ended.returncode == 0, ended.stderr
    once = ["create", "set up", "train", "delete"]
    assert world.did() == once * 2
    assert "pod was taken away (PREEMPTED)" in ended.stdout


def test_a_slice_preempted_during_its_set_up_is_replaced(world: World) -> None:
    world.queue("statuses", "idle", "idle", "done")
    world.queue("set-ups", "taken", "")
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
def test_keep_ends_with_the_reason_if_the_first_request_is_refused_or_fails_later(
    world: World, answer: str, reason: str, did: list[str]
) -> None:
    world.queue("creations", answer)
    ended = world.keep()
    assert ended.returncode == 1
    assert reason in ended.stdout + ended.stderr
    assert ended.stderr.endswith("tpu.sh: pod was refused, for the reason above\n")
    assert world.did() == did


@pytest.mark.parametrize(
    ("answer", "did"), [("refused", ["create"]), ("FAILED", ["create", "delete"])]
)
def test_a_later_request_that_is_refused_or_fails_is_retried_ever_more_slowly(
    world: World, stubs: Stubs, answer: str, did: list[str]
) -> None:
    world.queue("creations", "", answer, answer, "")
    world.queue("statuses", "busy", "taken", "done")
    assert world.keep().returncode == 0
    assert world.did() == ["create", "delete", *did * 2, "create", "delete"]
    assert [each for each in pauses(stubs) if each > 20] == [60, 60, 60, 120]


def pauses(stubs: Stubs) -> list[int]:
    return [int(seconds) for _, seconds in stubs.calls("sleep")]


def test_an_often_refused_request_is_retried_every_16_minutes(world: World, stubs: Stubs) -> None:
    world.queue("creations", "", *["refused"] * 7, "")
    world.queue("statuses", "busy", "taken", "done")
    assert world.keep().returncode == 0
    assert [each for each in pauses(stubs) if each > 60] == [120, 240, 480, 960, 960, 960]


def test_the_pauses_between_requests_are_reset_once_a_slice_was_created(
    world: World, stubs: Stubs
) -> None:
    world.queue("creations", "", "refused", "refused", "", "refused", "")
    world.queue("statuses", "busy", "taken", "busy", "taken", "done")
    assert world.keep().returncode == 0
    assert [each for each in pauses(stubs) if each > 60] == [120]


def test_keep_on_another_computer_takes_over_a_slice_that_trains(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "busy", "done")
    assert world.keep().returncode == 0
    assert world.did() == ["delete"]


def test_a_slice_whose_training_failed_stays_to_be_inspected(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "busy", "failed busy idle")
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == []
    assert (
        "training failed, and would fail again: fix it, commit, scripts/tpu.sh setup pod. The"
        in ended.stdout
    )


def test_training_that_somebody_has_stopped_is_not_started_again(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["stopped"] * 5)
    assert world.keep().returncode == 42
    assert world.did() == []


def test_training_that_somebody_restarts_after_a_stop_is_kept(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["stopped"] * 3, "busy", *["stopped"] * 3, "busy", "done")
    assert world.keep().returncode == 0


def test_a_worker_that_was_rebooted_joins_the_others(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "busy idle", "busy", "done")
    assert world.keep().returncode == 0
    assert world.did() == ["train", "delete"]


def test_if_a_worker_cannot_join_all_are_set_up_and_started_again(world: World) -> None:
    """For example one that has lost its checkout."""
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["busy idle"] * 5, "stopped idle", "busy", "done")
    assert world.keep().returncode == 0
    assert world.did() == [*["train"] * 4, "stop", "set up", "train", "delete"]


def test_workers_that_cannot_be_reached_for_a_while_are_left_to_train(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("node", "READY")
    world.queue("statuses", "busy", *["cut", "busy cut"] * 6, "idle cut", "busy", "done")
    ended = world.keep()
    assert ended.returncode == 0
    assert world.did() == ["delete"]
    assert ended.stdout.count("training is not reached") == 1
    assert ended.stderr.count("ERROR: ssh: connection refused") == 2  # the second of only a part


def test_keep_ends_if_some_workers_stay_unreachable_and_the_rest_do_not_train(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("node", "READY")
    world.queue("statuses", "busy", *["stopped cut"] * 99)
    ended = world.keep()
    assert ended.returncode == 42
    assert world.did() == []
    assert "part of pod cannot be reached, and the rest does not train" in ended.stdout


def test_keep_ends_with_the_whole_reason_if_workers_were_never_reached(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("node", "READY")
    world.queue("statuses", *["cut"] * 99)
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
    world.queue("states", "ACTIVE")
    world.queue("node", state)
    world.queue("statuses", "cut", "done")
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
def test_keep_ends_if_a_step_fails_again_and_again(
    world: World, step: str, name: str, tries: list[str]
) -> None:
    """Here the step fails once, works once, and then always fails."""
    world.queue("states", "ACTIVE")
    world.queue("statuses", "idle", "idle", "busy", *["idle"] * 12)
    world.queue(step, "cut", "", *["cut"] * 9)
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == [*tries, "set up", "train", *tries * 5]
    assert f"{name} failed 5 times in a row, for the reason above. The slice stays" in ended.stdout


def test_keep_ends_if_training_ends_again_and_again_without_an_exit_code(world: World) -> None:
    """For example because its whole session is killed."""
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["idle"] * 12)
    ended = world.keep()
    assert ended.returncode == 1
    assert world.did() == ["set up", "train"] * 5
    assert "training ended without an exit code 5 times in a row, for the" in ended.stdout
    assert "tail -n 20 ../hackmatrix.log" in ended.stderr


def test_failures_on_a_preempted_slice_are_not_counted_against_the_next(world: World) -> None:
    world.queue("statuses", *["idle"] * 7, "done")
    world.queue("set-ups", *["cut"] * 3, "taken", *["cut"] * 2)
    assert world.keep().returncode == 0
    assert world.did().count("create") == 2


@pytest.mark.parametrize(("amid", "number"), [("sleep", signal.SIGTERM), ("gcloud", signal.SIGHUP)])
def test_an_interrupt_ends_keep_and_nothing_else(
    world: World, stubs: Stubs, amid: str, number: signal.Signals
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["busy"] * 9)
    stubs.add(amid, "exec /bin/sleep 20")
    keeping = stubs.start(world.tpu, *KEEP, "--", *TRAINING)
    until(lambda: bool(stubs.calls(amid)))
    keeping.send_signal(number)
    output, _ = keeping.communicate(timeout=10)
    assert keeping.returncode == 128 + number
    assert "the slice and its training are left as they are" in output
    assert world.did() == []


def test_keep_ends_at_once_if_gcloud_cannot_describe_any_slice(world: World, stubs: Stubs) -> None:
    stubs.add("gcloud", "echo 'ERROR: you are not logged in' >&2; exit 1")
    ended = world.keep()
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[0] == "ERROR: you are not logged in"
    assert len(stubs.calls("gcloud")) == 1
