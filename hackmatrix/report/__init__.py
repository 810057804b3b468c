"""Reports of a run: its curves, games of its agent, and one page of everything."""
