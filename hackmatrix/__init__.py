"""HackMatrix: the game, its environments, and the training of agents that play it."""

import importlib.util


def _register_with_gymnasium() -> None:
    """By name: neither the environments nor JAX are imported before one is made."""
    import gymnasium

    gymnasium.register(
        id="HackMatrix-v0",
        entry_point="hackmatrix.envs.gymnasium_env:HackMatrixEnv",
        vector_entry_point="hackmatrix.envs.gymnasium_vector:HackMatrixVectorEnv",
    )


if importlib.util.find_spec("gymnasium"):
    _register_with_gymnasium()
