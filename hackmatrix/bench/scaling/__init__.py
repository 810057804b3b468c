"""How training scales with devices, each point measured in processes of its own."""
