"""How the tests compile."""

SIMULATED_DEVICES = "--xla_force_host_platform_device_count"
# Most of the time of these tests is the compiler's, for programs that run a few times. It takes two
# fifths of it without optimising, with the older way of making machine code of what is fused, and
# without looking again and again for what loops could do without.
COMPILE_SOON = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_disable_hlo_passes=simplify-while-loops,while-loop-invariant-code-motion"
)
# That way rounds as the rest of a program has it; this takes longer, and rounds in all alike.
COMPILE_ALIKE = "--xla_backend_optimization_level=0"


def xla_flags(devices: int, compile_as: str = COMPILE_SOON) -> str:
    """So many simulated devices in a process."""
    return f"{SIMULATED_DEVICES}={devices} {compile_as}"
