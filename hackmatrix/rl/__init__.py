"""What every algorithm needs: rollouts, draws, distributions, metrics of play, evaluation.

Most are pure functions of arrays that run inside `jax.shard_map`. Where they need the mesh axis
they are given its name. Environments are sharded along it; everything else is replicated.
"""
