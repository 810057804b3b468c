"""The XLA flags with which the tests compile."""

SIMULATED_DEVICES = "--xla_force_host_platform_device_count"
# Most of the tests' time is compilation, of programs that run a few times. It takes two fifths as
# long without optimisation, with the older emitters for fusions, without the passes that simplify
# loops again and again, and without splitting programs among threads, as processes share the cores.
COMPILE_FAST = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
    " --xla_disable_hlo_passes=simplify-while-loops,while-loop-invariant-code-motion"
)
# With COMPILE_FAST, rounding may depend on the rest of a program: a product may be rounded or not
# before it is added. With AVX it always is, as AVX has no instruction that multiplies and adds.
COMPILE_REPRODUCIBLY = f"{COMPILE_FAST} --xla_cpu_max_isa=AVX"


def xla_flags(devices: int, compile_as: str = COMPILE_FAST) -> str:
    """Returns XLA_FLAGS for a process with this number of simulated devices."""
    return f"{SIMULATED_DEVICES}={devices} {compile_as}"
