"""Gymnax imports seaborn for seconds, to draw games that nobody looks at here."""
