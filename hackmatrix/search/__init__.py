"""Planning on the exact game: in play and for expert iteration."""
