"""Exported policies without JAX: this package needs only NumPy and the standard library."""
