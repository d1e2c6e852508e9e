"""Constraints on an answer: JSON schemas, regular expressions and grammars, through llguidance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import any_to_lark
from numpy.typing import NDArray

from homespec.engine.guided_schema import guided
from homespec.errors import RequestError
from homespec.frames import Constraint

MAX_CONSTRAINT_CHARS = 256 * 1024
_MAX_LINE_CHARS = 100
"""Of a line of a reason: some quote all that was sent."""
Around = Callable[[Constraint], str]
"""Writes a Lark grammar around a constraint whose kind is json_schema, regex or lark."""


class MatcherVocab(Protocol):
    """What a constraint is compiled against."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def tokenizer(self) -> LLTokenizer: ...


class Grammar:
    """The state of one answer's constraint. It moves with the tokens that are kept, so it never needs to go back."""

    def __init__(self, matcher: LLMatcher, n_vocab: int, param: str) -> None:
        self._matcher = matcher
        self._n_vocab = n_vocab
        self._param = param

    def allowed(self) -> NDArray[np.bool_]:
        """Which tokens may come next, shape (n_vocab,); once the constraint is met in full, only end-of-text.

        Raises RequestError when the constraint has run into one of llguidance's limits.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.zeros(self._n_vocab, np.bool_)
        unpacked = np.unpackbits(bits, count=min(self._n_vocab, 8 * len(bits)), bitorder="little")
        mask[: len(unpacked)] = unpacked
        return mask

    def advance(self, token_id: int) -> None:
        """A token was kept. Raises RequestError when it is not legal."""
        self._matcher.consume_token(token_id)
        self._check()

    @property
    def is_complete(self) -> bool:
        """Nothing but end-of-text may follow."""
        return self._matcher.is_stopped()

    def forced(self) -> list[int]:
        """Tokens of the only text that may follow; usually how the model spells it, and checked like any draft."""
        return list(self._matcher.compute_ff_tokens())

    def legal_prefix(self, token_ids: list[int]) -> list[int]:
        """The part of a draft that the constraint allows."""
        return token_ids[: self._matcher.validate_tokens(token_ids)]

    def _check(self) -> None:
        if self._matcher.is_error():
            raise RequestError(
                f"the constraint cannot be followed any further: {_reason(self._matcher.get_error())}",
                param=self._param,
                code="constraint_failed",
            )


class GrammarCompiler:
    """Compiles constraints for one vocabulary."""

    def __init__(self, vocab: MatcherVocab) -> None:
        self._vocab = vocab

    def compile(self, constraint: Constraint, around: Around | None = None) -> Grammar:
        """Raises RequestError with llguidance's reason: a constraint that cannot be honoured is never dropped."""
        if len(constraint.text) > MAX_CONSTRAINT_CHARS:
            raise RequestError(
                f"{constraint.param} has {len(constraint.text)} characters; at most {MAX_CONSTRAINT_CHARS} are allowed",
                param=constraint.param,
            )
        try:
            constraint = _normal(constraint)
            grammar = _source(constraint)
        except RecursionError as error:
            raise _refusal(constraint, "it is nested too deeply") from error
        except Exception as error:  # llguidance's converters raise bare Exceptions for faults in the user's text
            raise _refusal(constraint, str(error)) from error
        matcher = self._matcher(constraint, grammar)
        if around is not None:  # alone first: a reason is about what was sent, and no text can end its frame early
            matcher = self._matcher(constraint, LLMatcher.grammar_from_lark(around(constraint)))
        return Grammar(matcher, self._vocab.n_vocab, constraint.param)

    def _matcher(self, constraint: Constraint, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._vocab.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise _refusal(constraint, matcher.get_error())
        return matcher


def _normal(constraint: Constraint) -> Constraint:
    """The same in json_schema, regex or lark."""
    match constraint.kind:
        case "json_schema":
            return msgspec.structs.replace(constraint, text=_guided(constraint.text))
        case "grammar":
            return msgspec.structs.replace(constraint, kind="lark", text=any_to_lark(constraint.text))
    return constraint


def _guided(schema: str) -> str:
    value = msgspec.json.decode(schema)
    return msgspec.json.encode(guided(value)).decode() if isinstance(value, dict) else schema


def _source(constraint: Constraint) -> str:
    match constraint.kind:
        case "json_schema":
            return LLMatcher.grammar_from_json_schema(constraint.text)
        case "regex":
            return LLMatcher.grammar_from_regex(constraint.text)
        case _:
            return LLMatcher.grammar_from_lark(constraint.text)


def _refusal(constraint: Constraint, reason: str) -> RequestError:
    return RequestError(
        f"{constraint.param} cannot be honoured: {_reason(reason)}", param=constraint.param, code="invalid_constraint"
    )


def _reason(text: str) -> str:
    """llguidance's, on one line; what it quotes of the constraint is cut, and the answer so far left out."""
    lines = text.partition("<state>")[0].replace("NoExtensionBias", "no text fits it").splitlines()
    return " ".join(" ".join(map(_cut, lines)).split())


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}…"
