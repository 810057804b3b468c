"""Devices and processes: the mesh, TPU slices, start-up, and agreement between processes."""
