"""Verdicts of earlier exactness probes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from homespec.engine.exactness import Verdict
from homespec.engine.kept import Kept, context_key
from homespec.engine.llama.context import Context


class Verdicts:
    """The cache: what cannot be read is probed again."""

    def __init__(self, folder: Path | None = None) -> None:
        self._kept = Kept("exactness", folder)

    def get(self, context: Context, *, pad_single: bool) -> Verdict | None:
        with suppress(TypeError):
            found = self._kept.get(context_key(context, pad_single))
            return Verdict(**found) if found else None
        return None

    def put(self, context: Context, verdict: Verdict, *, pad_single: bool) -> None:
        self._kept.put(context_key(context, pad_single), asdict(verdict))
