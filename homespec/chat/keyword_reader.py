"""Arguments in Python's notation as JSON: `city="Paris", days=[1, 2], now=True`; as they come, and never taken back."""

from __future__ import annotations

import json
import re

from homespec.chat.values import quoted

_WORDS = {"True": "true", "False": "false", "None": "null"}
_WORD = re.compile(r"""[^\s,:()\[\]{}'"]+""")
_SCALAR = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null")
_HEX = re.compile("[0-9a-fA-F]{4}")
_BRACKETS = {"(": "[", ")": "]"}
"""A tuple is a list."""


class KeywordReader:
    """The opening parenthesis has been read: it ends the function's name. The closing one is left."""

    def __init__(self) -> None:
        self._prefix = "{"
        self._depth = 0
        """Brackets that are open inside a value."""
        self._quote = ""
        """Of the string that is being read."""
        self._at_name = True

    def read(self, text: str, *, final: bool) -> tuple[str, str, bool]:
        out, self._prefix = self._prefix, ""
        while text:
            if text[0] == ")" and not self._depth and not self._quote:
                return out + "}", text, True
            json_text, rest = self._next(text, final)
            out += json_text
            if rest == text:
                break
            text = rest
        return out, text, False

    def _next(self, text: str, final: bool) -> tuple[str, str]:
        """A part of the text as JSON, and the rest; all is rest where more must come first."""
        if self._quote:
            return self._string(text)
        return self._name(text) if self._at_name else self._structure(text, final)

    def _name(self, text: str) -> tuple[str, str]:
        name, found, rest = text.partition("=")
        if not found:
            return "", text
        self._at_name = False
        return f'"{quoted(name.strip())}": ', rest

    def _string(self, text: str) -> tuple[str, str]:
        end = next((at for at, char in enumerate(text) if char in ("\\", self._quote)), len(text))
        if end:
            return quoted(text[:end]), text[end:]
        if text[0] == self._quote:
            self._quote = ""
            return '"', text[1:]
        return _escaped(text)

    def _structure(self, text: str, final: bool) -> tuple[str, str]:
        char = text[0]
        if char in "'\"":
            self._quote = char
            return '"', text[1:]
        word = _WORD.match(text)
        if word is not None:
            if word.end() == len(text) and not final:
                return "", text
            return _scalar(word[0]), text[word.end() :]
        if char == "," and not self._depth:
            self._at_name = True
            return ", ", text[1:]
        self._depth += (char in "([{") - (char in ")]}")
        return _BRACKETS.get(char, char), text[1:]


def _escaped(text: str) -> tuple[str, str]:
    """A backslash and what belongs to it, in JSON; it stands for itself where JSON knows no such escape."""
    follows = text[1:2]
    if not follows or (follows == "u" and len(text) < len("\\uXXXX")):
        return "", text
    if follows == "'":
        return "'", text[2:]
    if follows in '"\\/bfnrt' or (follows == "u" and _HEX.match(text, 2)):
        return "\\" + follows, text[2:]
    return "\\\\", text[1:]


def _scalar(word: str) -> str:
    word = _WORDS.get(word, word)
    return word if _SCALAR.fullmatch(word) else json.dumps(word, ensure_ascii=False)
