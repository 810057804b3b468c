"""How the tests compile."""

SIMULATED_DEVICES = "--xla_force_host_platform_device_count"
# Most of the time of these tests is the compiler's, for programs that run a few times. Without
# optimising, and with the older way of making machine code of what is fused, it takes two fifths.
COMPILE_SOON = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def xla_flags(devices: int) -> str:
    """So many simulated devices in a process."""
    return f"{SIMULATED_DEVICES}={devices} {COMPILE_SOON}"
