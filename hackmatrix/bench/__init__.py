"""Benchmarks of the game, the network and training, and the contents of compiled programs."""
