"""How training scales with devices; each number of devices is measured in new processes."""
