"""A run to look at: games of its agent, its curves, and a page of it all."""
