"""From a request's prompt to token ids, by the target's rules, once."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

from homespec.chat.tool_formats import HARMONY_REASONING
from homespec.engine.llama.vocab import Vocab
from homespec.engine.template import ChatTemplate
from homespec.errors import RequestError
from homespec.frames import ChatPrompt, Generate, TextPrompt, TokenPrompt

_CUT = f"\ue000{secrets.token_hex(8)}\ue001"
"""Put into texts where the tokenizer must not read on; nobody outside this process can know it."""


class Prompt(NamedTuple):
    """What is decoded before the answer."""

    token_ids: list[int]
    in_reasoning: bool = False
    """It ends inside a thinking block, which the answer goes on with."""


class PromptReader:
    """Renders and tokenises prompts."""

    def __init__(self, vocab: Vocab, template: ChatTemplate | None, *, n_ctx: int) -> None:
        self._vocab = vocab
        self._template = template
        self._n_ctx = n_ctx
        # Now, not with the first request: a large vocabulary takes a noticeable part of a second.
        self._control = _pattern(vocab.control_texts if template is not None else ())

    def read(self, request: Generate) -> Prompt:
        """Raises RequestError for a prompt that cannot be used or can never fit."""
        prompt = self._prompt(request)
        num_tokens = len(prompt.token_ids)
        if not num_tokens:
            raise RequestError("the prompt is empty; send at least one token", param=_field(request))
        if num_tokens >= self._n_ctx:
            raise RequestError(
                f"the prompt has {num_tokens} tokens and the context holds {self._n_ctx}, one of them for the "
                f"answer; shorten the prompt or start homespec with a larger --ctx",
                param=_field(request),
                code="context_length_exceeded",
            )
        return prompt

    def _prompt(self, request: Generate) -> Prompt:
        match request.prompt:
            case ChatPrompt() as prompt:
                return self._chat(prompt)
            case TextPrompt(text, ""):
                return Prompt(self._tokenize(text))
            case TextPrompt(text, suffix):
                return Prompt(self._gap(text, suffix))
            case TokenPrompt(token_ids):
                for token_id in token_ids:
                    if not 0 <= token_id < self._vocab.n_vocab:
                        raise RequestError(
                            f"token id {token_id} is outside the vocabulary of {self._vocab.n_vocab}", param="prompt"
                        )
                return Prompt(token_ids)

    def _gap(self, before: str, behind: str) -> list[int]:
        """The two texts around a gap, the first one first, and the token after which what fills it comes.

        The order that the models were taught most (PSM: prefix, suffix, middle), as llama-server's /infill has it.
        """
        markers = self._vocab.fill_in
        if markers is None:
            raise RequestError(
                "suffix: this model was not taught to fill a gap, its vocabulary has no tokens for it; leave the field "
                "out, or serve a code model with fill-in-the-middle tokens",
                param="suffix",
                code="no_fill_in",
            )
        first, second = (
            self._vocab.tokenize(text, add_special=False, parse_special=False) for text in (before, behind)
        )
        bos = [self._vocab.bos] if self._vocab.adds_bos and self._vocab.bos is not None else []
        return [*bos, markers.prefix, *first, markers.suffix, *second, markers.middle]

    def _chat(self, prompt: ChatPrompt) -> Prompt:
        if self._template is None:
            raise RequestError(
                "this model has no chat template (a base model); use /v1/completions, serve an instruct model, or set "
                "chat_template",
                code="no_chat_template",
                param="messages",
            )
        text = self._render(self._template, prompt)
        prefill = self._disarm(prompt.prefill, prompt.markers)
        in_reasoning = False
        if prompt.reasoning == HARMONY_REASONING:
            if prompt.answers_at_once or prefill:
                text += "<|channel|>final<|message|>"  # nothing but the answer is left to write
        elif prompt.reasoning is not None:
            start, end = prompt.reasoning
            is_open = text.rstrip().endswith(start)
            if is_open and (prompt.answers_at_once or (prefill and start not in prefill)):
                text += f"\n{end}\n\n"  # what has begun is the answer itself
                is_open = False
            in_reasoning = prefill.rfind(start) > prefill.rfind(end) if start in prefill else is_open
        # The template may write BOS itself: then the tokenizer must not add a second one.
        written = bool(self._template.bos) and text.startswith(self._template.bos)
        first, *others = (text + prefill).split(_CUT)
        token_ids = self._tokenize(first, add_special=not written)
        for other in others:
            token_ids += self._vocab.tokenize(other, add_special=False, parse_special=True)
        return Prompt(token_ids, in_reasoning)

    def _render(self, template: ChatTemplate, prompt: ChatPrompt) -> str:
        """Text in which nothing but the template's own words can become control tokens."""
        messages = [
            {**self._disarm(message, _own(message, prompt)), "role": message["role"]} for message in prompt.messages
        ]
        return template.render(
            messages, tools=self._disarm(prompt.tools, ()), variables=self._disarm(prompt.variables, ())
        )

    def _disarm(self, value: Any, allowed: tuple[str, ...]) -> Any:
        """The same value with every text that spells a control token cut, so that it stays text."""
        if isinstance(value, str):
            return self._cut(value, allowed)
        if isinstance(value, list):
            return [self._disarm(each, allowed) for each in value]
        if isinstance(value, dict):
            return {self._cut(str(key), allowed): self._disarm(each, allowed) for key, each in value.items()}
        return value

    def _cut(self, text: str, allowed: tuple[str, ...]) -> str:
        def cut(match: re.Match[str]) -> str:
            found = match[0]
            return found if found in allowed else found[0] + _CUT + found[1:]

        while (safe := self._control.sub(cut, text)) != text:  # one may begin inside another
            text = safe
        return text

    def _tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        token_ids = self._vocab.tokenize(text, add_special=add_special, parse_special=True)
        if not token_ids and self._vocab.bos is not None:
            return [self._vocab.bos]
        return token_ids


def _pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of these texts, none of a single character."""
    longest_first = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _own(message: dict[str, Any], prompt: ChatPrompt) -> tuple[str, ...]:
    """The model's own turns may hold the markers it has written."""
    return prompt.markers if message["role"] == "assistant" else ()


def _field(request: Generate) -> str:
    return "messages" if isinstance(request.prompt, ChatPrompt) else "prompt"
