"""Many devices: the mesh, the TPU slices, and where each array lives."""
