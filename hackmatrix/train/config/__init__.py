"""The configuration of a run: declared, checked, resolved for the devices found, saved."""

from hackmatrix.train.config.resolve import resolve
from hackmatrix.train.config.settings import Config, setting

__all__ = ["Config", "resolve", "setting"]
