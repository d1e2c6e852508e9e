"""The target's vocabulary as llguidance reads it."""

from __future__ import annotations

import warnings
from functools import cached_property

from llguidance import LLTokenizer
from llguidance.llamacpp import lltokenizer_from_vocab

from homespec.engine.llama.vocab import Vocab


class GuidanceVocab:
    """Made on first use: it takes most of a second for a large vocabulary."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab

    @property
    def n_vocab(self) -> int:
        return self._vocab.n_vocab

    @cached_property
    def tokenizer(self) -> LLTokenizer:
        with warnings.catch_warnings():
            # llguidance asks for token attributes by the old name, once per token.
            warnings.simplefilter("ignore", DeprecationWarning)
            return lltokenizer_from_vocab(self._vocab.handle, eos_token=sorted(self._vocab.end_tokens))
