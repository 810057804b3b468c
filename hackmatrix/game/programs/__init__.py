"""The programs (sections 3 and 6 of the rules): a table, and the functions that it names."""

from hackmatrix.game.programs.running import run
from hackmatrix.game.programs.table import ACTIONS, PROGRAMS, Program

__all__ = ["ACTIONS", "PROGRAMS", "Program", "run"]
