"""Planning on the exact game: what an agent does that looks ahead before it acts."""
