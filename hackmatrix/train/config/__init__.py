"""The configuration of a run: its declaration, checks, resolution for the devices, and saving."""

from hackmatrix.train.config.resolve import resolve
from hackmatrix.train.config.settings import Config, setting

__all__ = ["Config", "resolve", "setting"]
