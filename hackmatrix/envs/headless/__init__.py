"""The headless protocol of the canonical game, spoken by ours."""

from hackmatrix.envs.headless.session import LONGEST_LINE, Choose, Session, converse

__all__ = ["LONGEST_LINE", "Choose", "Session", "converse"]
