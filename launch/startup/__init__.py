"""What every program does before its work: its flags, and its first words on the terminal."""
