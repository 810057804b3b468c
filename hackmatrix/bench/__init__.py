"""Benchmarks of the game, the network and training, and what compiled programs consist of."""
