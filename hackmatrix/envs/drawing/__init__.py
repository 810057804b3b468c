"""Boards as text and as pictures, from what the headless protocol shows of them."""
