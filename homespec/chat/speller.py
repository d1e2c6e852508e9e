"""Texts as the symbols of a Lark grammar, as llguidance reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

TEXT = "TEXT: /(?s:.*)/"
"""The terminal that `up_to` uses: anything."""
SPACE = r"SPACE: /[ \n]{1,4}/"


class Speller:
    """A text as grammar symbols: markers that are tokens by their id, the rest between quotes."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        """tokens: the markers that the vocabulary holds as one special token, which text never matches."""
        self.tokens = tokens
        self._split = re.compile("|".join(f"({re.escape(marker)})" for marker in tokens)) if tokens else None

    def __call__(self, text: str) -> str:
        return " ".join(
            f"<[{self.tokens[part]}]>" if part in self.tokens else json.dumps(part, ensure_ascii=False)
            for part in self._parts(text)
        )

    def up_to(self, name: str, mark: str) -> str:
        """A rule of this name: any text, and the mark that ends it at its first occurrence."""
        return f"{self.first(name, mark)}: TEXT {self(mark)}"

    def first(self, name: str, mark: str) -> str:
        """The head of a rule that ends with the first occurrence of this mark: a lazy terminal where the mark is text,
        which other text could swallow.
        """
        return name if any(part in self.tokens for part in self._parts(mark)) else f"{name}[lazy]"

    def _parts(self, text: str) -> list[str]:
        return [part for part in self._split.split(text) if part] if self._split else [text]
