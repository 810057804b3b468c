"""Masked proximal policy optimisation: pure functions of arrays, for one device or for many.

They run inside of `jax.shard_map` over a mesh axis that they are told the name of: environments are
split along it, everything else is the same on all devices.
"""
