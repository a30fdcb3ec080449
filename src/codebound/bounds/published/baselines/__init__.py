"""Older bounds on f in three forms: as excess risks, as bars of a figure, and as released code has them."""

from codebound.bounds.published.baselines.figure import arora_figure
from codebound.bounds.published.baselines.released import decimal_orders, guha_code
from codebound.bounds.published.baselines.risks import literature

__all__ = ["arora_figure", "decimal_orders", "guha_code", "literature"]
