"""What the programs share: how they start, and the flags that name a policy or a run."""
