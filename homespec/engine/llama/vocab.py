"""The target's vocabulary: text to token ids and back. Read-only, so any thread may use it."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any, NamedTuple

from homespec.engine.llama.bindings import C

_NOT_TEXT = C.LLAMA_TOKEN_ATTR_CONTROL | C.LLAMA_TOKEN_ATTR_UNKNOWN
"""Attributes of tokens that llama.cpp reads in a text only when it parses special tokens."""
_NO_TOKEN = -1
"""LLAMA_TOKEN_NULL."""


class FillIn(NamedTuple):
    """Tokens in front of the text before a gap, of the text behind it, and of what fills it."""

    prefix: int
    suffix: int
    middle: int


class Vocab:
    """Vocabulary of a loaded model; valid as long as the model is."""

    def __init__(self, model_handle: Any) -> None:
        self.handle = C.llama_model_get_vocab(model_handle)
        self.n_vocab: int = C.llama_vocab_n_tokens(self.handle)
        self._pieces: dict[int, bytes] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`.

        add_special: let the tokenizer add BOS and EOS where the model wants them.
        parse_special: read control tokens such as `<|im_start|>` in the text as tokens, not as characters.
        """
        data = text.encode("utf-8", errors="replace")
        size = len(data) + 8
        while True:
            buffer = (C.llama_token * size)()
            count = C.llama_tokenize(self.handle, data, len(data), buffer, size, add_special, parse_special)
            if count >= 0:
                return list(buffer[:count])
            size = -count

    def piece(self, token_id: int) -> bytes:
        """Bytes that a token stands for; control tokens give none."""
        known = self._pieces.get(token_id)
        if known is None:
            known = self._pieces[token_id] = self._piece(token_id, special=False)
        return known

    def spelled(self, token_id: int) -> bytes:
        """Bytes of any token, control tokens spelled out."""
        return self._piece(token_id, special=True)

    def detokenize(self, token_ids: list[int]) -> str:
        """Text of any tokens, control tokens spelled out; broken UTF-8 gets replacement marks."""
        return b"".join(map(self.spelled, token_ids)).decode(errors="replace")

    def is_end(self, token_id: int) -> bool:
        """Whether the model ends its answer with this token (EOS, EOT and the like)."""
        return token_id in self.end_tokens

    def text(self, token_id: int) -> bytes:
        """The token's raw entry in the vocabulary, as the pair check compares it."""
        return C.llama_vocab_get_text(self.handle, token_id) or b""

    def attributes(self, token_id: int) -> int:
        """Bit set of llama_token_attr."""
        return int(C.llama_vocab_get_attr(self.handle, token_id))

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        return frozenset(token for token in range(self.n_vocab) if C.llama_vocab_is_eog(self.handle, token))

    @cached_property
    def control_texts(self) -> dict[str, int]:
        """Text → id of the tokens that structure a prompt and that no text of a user may become."""
        return {
            self.detokenize([token]): token
            for token in range(self.n_vocab)
            if self.attributes(token) & _NOT_TEXT or token in self.end_tokens
        }

    def marker(self, text: str) -> int | None:
        """Id of the one token that stands for `text` apart from all text: a control token, or one that the file's
        author has added in angle brackets; llguidance draws the same line.
        """
        token_ids = self.tokenize(text, add_special=False, parse_special=True)
        if len(token_ids) != 1 or self.detokenize(token_ids) != text:
            return None
        attributes = self.attributes(token_ids[0])
        in_brackets = text.startswith("<") and text.endswith(">")
        is_added = attributes & C.LLAMA_TOKEN_ATTR_USER_DEFINED and in_brackets
        return token_ids[0] if attributes & C.LLAMA_TOKEN_ATTR_CONTROL or is_added else None

    @property
    def type(self) -> int:
        return int(C.llama_vocab_type(self.handle))

    @property
    def adds_bos(self) -> bool:
        return bool(C.llama_vocab_get_add_bos(self.handle))

    @property
    def adds_eos(self) -> bool:
        return bool(C.llama_vocab_get_add_eos(self.handle))

    @property
    def bos(self) -> int | None:
        return _token_or_none(C.llama_vocab_bos(self.handle))

    @property
    def eos(self) -> int | None:
        return _token_or_none(C.llama_vocab_eos(self.handle))

    @property
    def closing_tokens(self) -> frozenset[int]:
        """What a tokenizer may put behind a text: EOS, or SEP."""
        return frozenset({C.llama_vocab_eos(self.handle), C.llama_vocab_sep(self.handle)} - {_NO_TOKEN})

    @cached_property
    def fill_in(self) -> FillIn | None:
        """Markers for filling in the middle; None for a model that was not taught it."""
        functions = (C.llama_vocab_fim_pre, C.llama_vocab_fim_suf, C.llama_vocab_fim_mid)
        prefix, suffix, middle = (int(function(self.handle)) for function in functions)
        return None if _NO_TOKEN in (prefix, suffix, middle) else FillIn(prefix, suffix, middle)

    @property
    def mask(self) -> int | None:
        """The token that stands for one to be filled in."""
        return _token_or_none(C.llama_vocab_mask(self.handle))

    def _piece(self, token_id: int, *, special: bool) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = C.llama_token_to_piece(self.handle, token_id, buffer, size, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            size = -count


def _token_or_none(token_id: int) -> int | None:
    return None if token_id == _NO_TOKEN else token_id
