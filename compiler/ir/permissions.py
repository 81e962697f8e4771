"""Permissions by their texts, as a program holds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def ulps(permissions: Iterable[str]) -> int:
    """How many units in the last place `approx(n)` lets elementary functions be off; 0 without it."""
    found = (re.fullmatch(r"approx\((\d+)\)", p) for p in permissions)
    return max((int(m.group(1)) for m in found if m is not None), default=0)
