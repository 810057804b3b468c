"""Proximal policy optimisation with action masks: pure functions, for one device or many."""

from hackmatrix.ppo.algorithm import PPO

__all__ = ["PPO"]
