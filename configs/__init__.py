"""Configurations of the trainer, one get_config() a file: default.py, and small changes to it."""
