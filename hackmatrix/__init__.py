"""HackMatrix: the game, its environments, and the training of agents that play it."""
