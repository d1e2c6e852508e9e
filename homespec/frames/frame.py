"""What every message is."""

from __future__ import annotations

import msgspec


class Frame(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of every message."""
