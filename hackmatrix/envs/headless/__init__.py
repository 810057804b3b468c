"""The headless protocol of the canonical game: serving ours, and following another program's."""

from hackmatrix.envs.headless.following import Followed
from hackmatrix.envs.headless.session import LONGEST_LINE, Choose, Decision, Session, converse

__all__ = ["LONGEST_LINE", "Choose", "Decision", "Followed", "Session", "converse"]
