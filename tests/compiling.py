"""How the tests compile."""

SIMULATED_DEVICES = "--xla_force_host_platform_device_count"
# Most of the time of these tests is LLVM's, for programs that run a few times: without optimising
# it takes three fifths of it.
COMPILE_SOON = "--xla_backend_optimization_level=0"


def xla_flags(devices: int) -> str:
    """So many simulated devices in a process."""
    return f"{SIMULATED_DEVICES}={devices} {COMPILE_SOON}"
