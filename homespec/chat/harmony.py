"""gpt-oss's channels: an answer is a row of messages, each with a header that says what it is.

`<|channel|>analysis<|message|>` is thinking, `final` the answer, `commentary` words in between, or, with a recipient
`to=functions.NAME`, a call. Messages end with `<|end|>`; what ends the answer is no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from homespec.chat.answer_parser import AnswerParser
from homespec.chat.arguments import JsonReader
from homespec.chat.speller import TEXT, Speller
from homespec.chat.tool_format import Tools
from homespec.chat.tool_formats import HARMONY, HARMONY_REASONING
from homespec.frames import ToolUse

_MESSAGE, _END = "<|message|>", "<|end|>"
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=functions\.([^\s<]+)")
_HEADERS = ("<|channel|>", "<|start|>", "assistant", "to=")
"""What a header may start with."""


class HarmonyParser(AnswerParser):
    """Takes the text in any portions; the joined pieces do not depend on where it was cut."""

    def __init__(self, tools: Tools | None) -> None:
        super().__init__(None, tools)
        self._state = self._header

    def _header(self) -> bool:
        text = self._buffer.lstrip()
        if not any(text.startswith(start) or start.startswith(text) for start in _HEADERS):
            self._state = self._content_body  # the prompt has written the header
            return bool(text)
        header, found, rest = self._buffer.partition(_MESSAGE)
        if not found:
            if self._final and "<|" not in header:
                self._state = self._content_body  # it is no header after all
            return self._state != self._header
        self._buffer, self._began = rest, False
        recipient, channel = _RECIPIENT.search(header), _CHANNEL.search(header)
        if recipient is not None:
            self._begin_call(recipient[1], JsonReader())
        else:
            is_thinking = channel is not None and channel[1] == "analysis"
            self._state = self._reasoning_body if is_thinking else self._content_body
        return True

    def _reasoning_body(self) -> bool:
        if not self._began:
            self._buffer = self._buffer.lstrip()
        before, found, rest = self._buffer.partition(_END)
        if found:
            self._give("reasoning", before.rstrip())
            self._buffer, self._state = rest, self._header
            return True
        self._give_all_but("reasoning", "" if self._final else _END)
        return False

    def _content_body(self) -> bool:
        before, found, rest = self._buffer.partition(_END)
        if found:
            self._give("content", before)
            self._buffer, self._state = rest, self._header
            return True
        self._give_all_but("content", _END)
        return False

    def _after_call(self) -> bool:
        """Up to the next header."""
        _, found, rest = self._buffer.partition("<|start|>")
        self._buffer = rest if found else self._buffer[-len("<|start|>") :]
        if found:
            self._state = self._header
        return bool(found)


def make_parser(reasoning: tuple[str, str] | None, tools: Tools | None) -> AnswerParser:
    """The parser for answers with this thinking and these calls."""
    if reasoning == HARMONY_REASONING or (tools is not None and tools.format is HARMONY):
        return HarmonyParser(tools)
    return AnswerParser(reasoning, tools)


def harmony_grammar(use: ToolUse, tokens: Mapping[str, int]) -> str:
    """A grammar for answers that may, or must, call; tokens: see `tool_grammar`. One call ends the answer."""
    spell = Speller(tokens)
    kinds = ["call"]
    if not use.required:
        kinds += ["final", "preamble call"]
    final = "TEXT" if use.answer_schema is None else f"%json {use.answer_schema}"
    channel, message, begin = spell("<|channel|>"), spell(_MESSAGE), spell("<|start|>assistant")
    # Where markers are text, none may begin like a longer text: the lexer takes the longest and never goes back.
    rules = [
        *_messages(" | ".join(kinds), final, spell),
        f'preamble: {channel} "commentary" {message} to_end {begin}',
        f'call: to ({_each("early", use)}) | {channel} "commentary" to ({_each("late", use)})',
        'to: " to=functions."',
        f'kind: (" "? {spell("<|constrain|>")} "json" | " json")?',
    ]
    for index, function in enumerate(use.functions):
        name, arguments = spell(function.name), f"kind {message} %json {function.schema}"
        rules.append(f'early_{index}: {name} {channel} "commentary" {arguments}')
        rules.append(f"late_{index}: {name} {arguments}")
    return "\n".join(rules)


def harmony_answer(answer: str, tokens: Mapping[str, int]) -> str:
    """A grammar for thinking, then the final message with this answer, which is Lark as well."""
    return "\n".join(_messages("final", answer, Speller(tokens)))


def _messages(kinds: str, final: str, spell: Speller) -> list[str]:
    """Thinking, then one of these kinds of message."""
    channel, message = spell("<|channel|>"), spell(_MESSAGE)
    return [
        f"start: think* ({kinds})",
        f'think: {channel} "analysis" {message} to_end {spell("<|start|>assistant")}',
        f'final: {channel} "final" {message} {final}',
        spell.up_to("to_end", _END),
        TEXT,
    ]


def _each(name: str, use: ToolUse) -> str:
    return " | ".join(f"{name}_{index}" for index in range(len(use.functions)))
