"""Planning with the exact game as the model: in play and for expert iteration."""
