"""Masked proximal policy optimisation: pure functions of arrays, for one device or for many."""

from hackmatrix.ppo.algorithm import PPO

__all__ = ["PPO"]
