"""How scripts/tpu.sh keep ends: its hours are over or the run is done, and the slice is deleted."""

import pytest

from tests.scripts.stubs import Stubs
from tests.scripts.world import World


@pytest.mark.parametrize(
    ("status", "code", "did"),
    [
        ("busy", 42, ["stop", "delete"]),
        ("stopped", 42, ["stop", "delete"]),
        ("done", 0, ["delete"]),
        ("failed busy", 1, ["stop", "delete"]),
    ],
)
def test_after_its_hours_training_is_stopped_the_slice_deleted_and_the_code_returned(
    world: World, status: str, code: int, did: list[str]
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", status)
    ended = world.keep("--hours=1", seconds=3600)  # the number from which Bash counts its SECONDS
    assert ended.returncode == code
    assert world.did() == did
    assert "1 hours are over" in ended.stdout


def test_within_its_hours_training_continues_until_it_is_done(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "busy", "done")
    ended = world.keep("--hours=1", seconds=3000)
    assert ended.returncode == 0
    assert world.did() == ["delete"]


def test_a_slice_whose_training_still_fails_after_its_hours_is_deleted(
    world: World, stubs: Stubs
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["failed"] * 9)
    stubs.add("sleep", "exec /bin/sleep 0.7")
    ended = world.keep("--hours=1", seconds=3598)
    assert ended.returncode == 1
    assert world.did() == ["stop", "delete"]
    assert ended.stdout.count("training failed, and would fail again") == 1
    assert "The slice stays until the hours are over, and is then deleted" in ended.stdout


def test_within_its_hours_training_that_failed_may_be_repaired(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "failed", "failed", "busy", "idle", "busy", "failed", "idle", "done")
    ended = world.keep("--hours=1")
    assert ended.returncode == 0
    assert world.did() == ["set up", "train", "set up", "train", "delete"]
    assert ended.stdout.count("training failed, and would fail again") == 2


@pytest.mark.parametrize(
    ("what", "answers", "trouble", "code"),
    [
        ("statuses", [*["stopped"] * 9, "taken"], "training was stopped, or given up", 42),
        (
            "statuses",
            [*["cut"] * 12, "taken"],
            "pod is READY, but could not be reached 10 times in a row",
            1,
        ),
        ("set-ups", ["cut"] * 7, "set-up failed 5 times in a row", 1),
    ],
)
def test_within_its_hours_a_slice_in_trouble_is_kept_until_somebody_deletes_it(
    world: World, what: str, answers: list[str], trouble: str, code: int
) -> None:
    world.queue("statuses", *["idle"] * 7, "taken")
    world.queue(what, *answers)
    ended = world.keep("--hours=1")
    assert ended.returncode == code
    assert not (world.directory / what).read_text()
    assert [each for each in world.did() if each != "set up"] == ["create", "delete"]
    assert ended.stdout.count(trouble) == 1


def test_after_its_hours_a_slice_that_was_never_reached_stays(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", *["cut"] * 9)
    ended = world.keep("--hours=1", seconds=3600)
    assert ended.returncode == 1
    assert world.did() == []
    assert "pod cannot be reached, and others may train there. It stays" in ended.stderr


@pytest.mark.parametrize(
    ("describes", "statuses"),
    [
        ([], ["otherwise", "cut"]),  # the slice was there when the workers last answered
        (["", "cut"], ["busy", "otherwise"]),
    ],
)
def test_after_its_hours_other_training_is_left_alone(
    world: World, describes: list[str], statuses: list[str]
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("describes", *describes)
    world.queue("statuses", *statuses)
    ended = world.keep_until_the_end_of_its_hours()
    assert ended.returncode == 42
    assert world.did() == []
    assert "others train on pod or set it up: it stays" in ended.stdout


@pytest.mark.parametrize(
    ("answers", "did"),
    [
        (["otherwise"], []),
        (["otherwise cut"], []),
        (["set-up"], []),
        (["cut", "stopped cut", "otherwise"], []),
        (["cut", "busy"], ["stop", "delete"]),
    ],
)
def test_if_its_hours_end_before_the_first_status_it_asks_until_there_is_an_answer(
    world: World, answers: list[str], did: list[str]
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("describes", "", "cut")
    world.queue("statuses", *answers)
    assert world.keep("--hours=1", seconds=3600).returncode == 42
    assert world.did() == did


def test_its_own_set_up_ends_with_its_hours_even_if_the_connection_was_lost(
    world: World,
) -> None:
    world.queue("statuses", "idle", *["set-up"] * 9)
    world.queue("set-ups", "cut")
    assert world.keep_until_the_end_of_its_hours(pause=4, lasts=4).returncode == 42
    assert world.did() == ["create", "set up", "stop", "delete"]


@pytest.mark.parametrize(("status", "code"), [("done", 0), ("busy", 42)])
def test_deleting_a_slice_is_retried_until_the_network_is_back(
    world: World, status: str, code: int
) -> None:
    world.queue("states", "ACTIVE")
    world.queue("describes", "", *["", "cut"] * 4)
    world.queue("statuses", *[status] * 20)
    world.queue("deletes", *["cut"] * 5)
    ended = world.keep("--hours=1", seconds=3600 if status == "busy" else 0)
    assert ended.returncode == code
    assert world.did().count("delete") == 6
    assert ended.stdout.count("pod COULD NOT BE DELETED and costs money: trying again every") == 1
    assert ended.stdout.count("the run is done") == (status == "done")


def test_a_slice_that_another_computer_has_deleted_counts_as_deleted(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "done")
    world.queue("deletes", *["gone"] * 9)
    ended = world.keep()
    assert ended.returncode == 0
    assert "COULD NOT BE DELETED" not in ended.stdout


def test_a_slice_stays_if_others_train_on_it_before_it_could_be_deleted(world: World) -> None:
    world.queue("states", "ACTIVE")
    world.queue("statuses", "done", "otherwise")
    world.queue("deletes", "cut")
    ended = world.keep()
    assert ended.returncode == 0
    assert world.did() == ["delete"]
    assert "others train on pod or set it up: it stays" in ended.stdout


def test_a_hanging_command_is_killed_and_the_slice_checked_again(
    world: World, stubs: Stubs
) -> None:
    hangs = "[[ $* != *status* ]] || ! mkdir ~/hung 2>/dev/null || exit 124"
    stubs.add("timeout", f'{hangs}; exec "${{@:4}}"')
    world.queue("states", "ACTIVE")
    world.queue("statuses", "done")
    ended = world.keep()
    assert ended.returncode == 0
    assert "the last command did not end within an hour, and was killed" in ended.stderr
    assert {tuple(call[1:4]) for call in stubs.calls("timeout")} == {("-k", "60", "3600")}
