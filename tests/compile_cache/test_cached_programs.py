"""Compiled programs are found again, but only where they are the same."""

from __future__ import annotations

import functools
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

from hackmatrix.compile_cache import calls, programs
from hackmatrix.compile_cache.files import Files
from hackmatrix.compile_cache.programs import CachedJit
from hackmatrix.envs import make
from hackmatrix.networks import Spec
from hackmatrix.networks import make as make_network
from hackmatrix.networks.actor_critic import Network
from hackmatrix.parallel import mesh
from hackmatrix.train.checkpoints.digest import digest

TRACED, COMPILED = "jaxpr_trace_duration", "backend_compile_duration"
GAME = make("hackmatrix")
NETWORK = make_network(Spec("mlp", 8, 1, 4, False, "float32"), GAME)
RNG = np.random.default_rng(0)
PARTS = {name: RNG.random((2, *shape), np.float32) for name, shape in GAME.observation.items()}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts how often something is traced and compiled within the block."""
    counts: Counter[str] = Counter()

    def note(event: str, duration_secs: float, **kwargs: str | int) -> None:
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield counts
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


@pytest.fixture(scope="module")
def params() -> Any:
    return jax.device_get(NETWORK.init(jax.random.key(0)))


def test_while_a_program_is_traced_no_garbage_is_collected() -> None:
    def lower(x: Any, fails: bool = False) -> jax.stages.Lowered:
        assert not gc.isenabled()
        return jax.jit(lambda y: y + (1 / 0 if fails else 1)).lower(x)

    programs.traced(lambda: lower(1.0))
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        programs.traced(lambda: lower(1.0, fails=True))
    assert gc.isenabled()


def run_after_restart(params: Any, network: Network = NETWORK) -> list[np.ndarray]:
    """Returns the outputs of a network after a restart of the program."""
    programs._in_use.clear()
    forward = functools.partial(Network.__call__, network)
    outputs = CachedJit(jax.jit(forward), forward)(params, PARTS)
    return [np.asarray(each) for each in outputs]


def test_at_the_second_start_nothing_is_traced_and_the_result_is_the_same_bit_for_bit(
    cache: Path, params: Any
) -> None:
    plain = jax.jit(NETWORK.__call__)(params, PARTS)
    with counted() as first:
        compiled = run_after_restart(params)
    assert first[TRACED]
    assert first[COMPILED]
    with counted() as second:
        found = run_after_restart(params)
    assert not second[TRACED]
    assert not second[COMPILED]
    for each in zip(plain, compiled, found, strict=True):
        assert len({np.asarray(leaf).tobytes() for leaf in each}) == 1


def test_a_typed_key_and_its_raw_words_are_two_programs(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the compiler gets the same text for both."""
    monkeypatch.setattr(jax.stages.Lowered, "as_text", lambda lowered: "the same")
    typed = jax.random.split(jax.random.key(0), 4)
    for keys in (typed, jax.random.key_data(typed)):
        programs._in_use.clear()
        swapped = CachedJit(jax.jit(lambda keys: keys[::-1]), ("swapped", keys.dtype))(keys)
        assert swapped.dtype == keys.dtype


def test_another_network_is_another_program(cache: Path, params: Any) -> None:
    run_after_restart(params)
    wider = make_network(Spec("mlp", 16, 1, 4, False, "float32"), GAME)
    initial = jax.device_get(wider.init(jax.random.key(0)))
    with counted() as counts:
        run_after_restart(initial, wider)
    assert counts[COMPILED]


@pytest.mark.parametrize("content", [b"", b"no program", b"\x80\x04N."])
def test_damaged_files_are_ignored_and_replaced(cache: Path, params: Any, content: bytes) -> None:
    expected = run_after_restart(params)
    files = programs.Files(cache)
    for each in list(cache.iterdir()):
        files.write(each.name, content)  # intact, but not a usable program
    np.testing.assert_equal(run_after_restart(params), expected)
    with counted() as counts:
        np.testing.assert_equal(run_after_restart(params), expected)
    assert not counts[TRACED]


def test_after_a_change_of_the_sources_a_program_with_the_same_text_is_not_recompiled(
    cache: Path, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_after_restart(params)
    monkeypatch.setattr(programs, "source_hash", lambda: "another")
    with counted() as changed:
        np.testing.assert_equal(run_after_restart(params), expected)
    assert changed[TRACED]
    assert not changed[COMPILED]
    with counted() as counts:
        np.testing.assert_equal(run_after_restart(params), expected)
    assert not counts[TRACED]


def test_while_the_sources_are_edited_no_program_is_found_or_cached_by_its_fingerprint(
    cache: Path, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_after_restart(params)
    with monkeypatch.context() as patched, counted() as counts:
        patched.setattr(programs, "has_changed", lambda: True)
        np.testing.assert_equal(run_after_restart(params), expected)
        assert counts[TRACED]
        assert not counts[COMPILED]
        for each in cache.iterdir():
            each.unlink()
        run_after_restart(params)
    with counted() as counts:
        run_after_restart(params)
    assert counts[TRACED]


def test_a_program_of_another_package_version_is_not_found(
    cache: Path, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_after_restart(params)
    monkeypatch.setattr(programs.fingerprints, "version", lambda _: "0.0.1")
    with counted() as counts:
        np.testing.assert_equal(run_after_restart(params), expected)
    assert counts[COMPILED]


def test_a_program_with_a_foreign_part_is_found_by_its_text(cache: Path, params: Any) -> None:
    def start(times: int) -> tuple[int, float]:
        function = jax.jit(lambda params, parts: NETWORK(params, parts)[1].sum() * times)
        with counted() as counts:
            result = CachedJit(function)(params, PARTS)
        return counts[COMPILED], float(result)

    first, second, other = (start(times) for times in (2, 2, 4))
    assert first[0] == other[0] == 1
    assert second == (0, first[1])
    assert other[1] == 2 * first[1]


def on_a_tpu(words: jax.Array) -> jax.Array:
    def increment(input_ref: Any, output_ref: Any) -> None:
        output_ref[...] = input_ref[...] + 1

    return pl.pallas_call(increment, jax.ShapeDtypeStruct(words.shape, words.dtype))(words)


def on_a_gpu(words: jax.Array) -> jax.Array:
    def increment(input_ref: Any, output_ref: Any) -> None:
        output_ref[...] = input_ref[...] + 1

    kind = jax.ShapeDtypeStruct(words.shape, words.dtype)
    return pl.kernel(increment, out_type=kind, mesh=mosaic_gpu.Mesh())(words)


@pytest.mark.parametrize(
    ("kernel", "platform", "name"),
    [(on_a_tpu, "tpu", "tpu_custom_call"), (on_a_gpu, "cuda", "mosaic_gpu_v2")],
)
def test_a_kernel_is_no_external_call_so_its_program_is_not_lowered_at_every_start(
    kernel: Any, platform: str, name: str
) -> None:
    words = jax.ShapeDtypeStruct((8, 128), jnp.int32)
    text = jax.jit(kernel).trace(words).lower(lowering_platforms=(platform,)).as_text()
    assert f"custom_call @{name}" in text
    assert not calls.calls_in(text)
    assert calls.calls_in(text.replace(name, "lapack_sgeqrf")) == {"lapack_sgeqrf"}


@pytest.mark.usefixtures("cache")
def test_a_function_of_arrays_on_several_devices_is_found_again_for_these_devices() -> None:
    """An example is the digests of a checkpoint."""
    over_two = mesh.split(mesh.over(jax.devices()[:2]))
    state = [jax.device_put(np.arange(number, dtype=np.float32), over_two) for number in (4, 6)]

    def start() -> tuple[Counter[str], list[int]]:
        programs._in_use.clear()
        jax.clear_caches()
        with counted() as counts:
            found = CachedJit(digest)(state).tolist()
        return counts, found

    (first, expected), (second, found) = start(), start()
    assert first[COMPILED]
    assert not second[TRACED]
    assert not second[COMPILED]
    assert found == expected == digest([np.asarray(each) for each in state]).tolist()


@pytest.mark.parametrize("is_wanted", [False, True])
def test_the_cache_of_jax_is_as_before_after_it_was_switched_off(is_wanted: bool) -> None:
    setting = "jax_enable_compilation_cache"
    before = jax.config.values[setting]
    try:
        jax.config.update(setting, is_wanted)
        with programs.without_persistent_cache():
            assert jax.config.values[setting] is False
        assert jax.config.values[setting] is is_wanted
    finally:
        jax.config.update(setting, before)


def test_programs_are_cached_while_another_thread_compiles_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the cache of JAX is off in all threads."""
    without_cache, caches = programs.without_persistent_cache, []

    @contextmanager
    def compiling() -> Iterator[None]:
        with without_cache():
            caches.append(programs._cache_for(jax.local_devices()[:1], None))
            yield

    monkeypatch.setattr(programs, "without_persistent_cache", compiling)
    assert CachedJit(jax.jit(lambda number: number + 1))(1) == 2
    assert [each and each.files for each in caches] == [Files(cache)]


@pytest.mark.usefixtures("cache")
def test_with_jit_disabled_a_function_is_called_as_it_is() -> None:
    increment = CachedJit(jax.jit(lambda number: number + 1))
    assert increment(1) == 2
    with jax.disable_jit():
        assert increment(1) == 2
        assert increment.shapes(1).shape == ()


@pytest.mark.usefixtures("cache")
def test_no_program_is_cached_in_a_bucket() -> None:
    devices = jax.devices()[:1]
    assert programs._cache_for(devices, None)
    jax.config.update("jax_compilation_cache_dir", "gs://bucket/.compiled")
    assert programs._cache_for(devices, None) is None


def test_no_program_is_cached_where_jax_has_no_cache(params: Any, tmp_path: Path) -> None:
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        run_after_restart(params)
        assert not programs._in_use
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
