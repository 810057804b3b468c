"""Programs, one for each job: flags and a few calls."""
