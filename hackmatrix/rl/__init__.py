"""What every algorithm needs: play, draws, distributions, metrics of play, evaluation of games.

Pure functions of arrays that run inside of `jax.shard_map` over a mesh axis whose name they are
told: environments are split along it, everything else is replicated.
"""
