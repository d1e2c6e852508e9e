"""Of the grammars for constrained answers: thinking is free, what follows it is not."""

from __future__ import annotations

import pytest
from llguidance import LLMatcher, LLTokenizer

from homespec.chat.answer_grammar import answer_grammar
from homespec.chat.tool_formats import HARMONY_REASONING
from homespec.frames import Constraint

TOKENIZER = LLTokenizer("byte")
THINK = ("<think>", "</think>")
THOUGHT = "is it </thin or </think>"
ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"
CASES = [
    ("json_schema", '{"type": "array", "items": {"type": "integer"}}', "[1, 2]", '["a"]'),
    ("regex", r"a/b|\/c|d\\/e", "a/b", "ab"),
    ("regex", r"a/b|\/c|d\\/e", "/c", r"\/c"),
    ("regex", r"a/b|\/c|d\\/e", r"d\/e", "d/e"),
    ("regex", "one\nline", "one\nline", "oneline"),
    ("lark", 'start: WORD "!"\nWORD: /[a-c]+/', "abc!", "abd!"),
]


def legal(text: str, constraint: Constraint, reasoning: tuple[str, str], *, in_reasoning: bool = False) -> bool:
    """Whether `text` is a whole answer."""
    grammar = answer_grammar(constraint, {}, reasoning=reasoning, in_reasoning=in_reasoning)
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    token_ids = TOKENIZER.tokenize_str(text)
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


@pytest.mark.parametrize(("kind", "text", "good", "bad"), CASES)
def test_only_the_answer_is_bound(kind: str, text: str, good: str, bad: str) -> None:
    constraint = Constraint(kind, text, "x")
    for before in ("", f"<think>{THOUGHT}", f"<think>{bad}{THOUGHT}\n\n"):
        assert legal(before + good, constraint, THINK)
        assert not legal(before + bad, constraint, THINK)


@pytest.mark.parametrize(("kind", "text", "good", "bad"), CASES)
def test_an_open_block_is_closed_first(kind: str, text: str, good: str, bad: str) -> None:
    constraint = Constraint(kind, text, "x")
    assert legal(THOUGHT + good, constraint, THINK, in_reasoning=True)
    assert not legal(THOUGHT + bad, constraint, THINK, in_reasoning=True)
    assert not legal(good, constraint, THINK, in_reasoning=True)


@pytest.mark.parametrize(("kind", "text", "good", "bad"), CASES)
def test_the_final_channel_is_bound_and_the_analysis_is_not(kind: str, text: str, good: str, bad: str) -> None:
    constraint = Constraint(kind, text, "x")
    for before in ("", ANALYSIS):
        assert legal(before + FINAL + good, constraint, HARMONY_REASONING)
        assert not legal(before + FINAL + bad, constraint, HARMONY_REASONING)
        assert not legal(before + good, constraint, HARMONY_REASONING)
