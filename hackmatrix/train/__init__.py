"""Training: the loop around the compiled updates, and all that it reads and writes."""
