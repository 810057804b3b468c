"""Reports: the curves of a run, games of its agent, one page of everything, and runs compared."""
