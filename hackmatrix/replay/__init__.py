"""Episodes recorded turn by turn, to be watched in a terminal, on a page or as a GIF."""
