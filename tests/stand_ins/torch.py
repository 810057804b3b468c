"""tensorboardX imports PyTorch where it is installed, for seconds, and can do without."""

raise ImportError("not installed, as far as a program under test is concerned")
