"""Episodes to look at: recorded turn by turn, shown in a terminal or as a page."""
