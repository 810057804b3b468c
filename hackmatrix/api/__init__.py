"""The trainer as a library: `hackmatrix.train` and `hackmatrix.load`, and what they return."""
