"""Exported policies without JAX: NumPy and the standard library are all that is needed here."""
