"""How training scales with devices, each number of them measured in processes of its own."""
