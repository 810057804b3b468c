"""Devices and processes: the mesh, TPU slices, GPUs, start-up, agreement, transient failures."""
