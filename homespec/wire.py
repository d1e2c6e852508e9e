"""The OpenAI shapes, in and out: the only home of the names that clients see.

Requests: null means absent, unknown fields are ignored, known ones are honoured or refused with the field's name.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from homespec.errors import ErrorInfo, RequestError
from homespec.frames import ChatPrompt, Finished, Sampling, Speculation, TextPrompt, TokenPrompt

MAX_STOPS = 32
MAX_INT = 2**63 - 1
"""The largest number that crosses to the engine."""
MAX_BIAS = 1e6
"""Far beyond any logit, and far from overflowing one."""
DEFAULT_COMPLETION_TOKENS = 16
"""What the OpenAI API documents for /v1/completions without max_tokens."""
DRAFTER_MODES = ("auto", "off", "draft", "ngram")

DrafterMode = Literal["auto", "off", "draft", "ngram"]


class _Wire(BaseModel):
    # Strict: a string of digits or a boolean is not a number. Extra fields are other servers' extensions.
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if value is not None or key in cls._nullable()}
        return values

    @classmethod
    def _nullable(cls) -> frozenset[str]:
        return frozenset()


class SpeculativeOptions(_Wire):
    mode: DrafterMode = "auto"
    max_draft_tokens: int | None = Field(default=None, ge=0, le=64)
    """0: no drafting."""


class StreamOptions(_Wire):
    include_usage: bool = False


class Message(_Wire):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None

    @classmethod
    def _nullable(cls) -> frozenset[str]:
        return frozenset({"content"})


def _unlimited_is_absent(value: Any) -> Any:
    return None if value == -1 and not isinstance(value, bool) else value


def _one_is_a_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# llama.cpp's clients send -1 for "no limit".
TokenLimit = Annotated[Annotated[int, Field(ge=1, le=MAX_INT)] | None, BeforeValidator(_unlimited_is_absent)]
Stops = Annotated[list[str], BeforeValidator(_one_is_a_list)]
Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]


class _Generation(_Wire):
    """Fields that chat and completions share."""

    model: str | None = None
    max_tokens: TokenLimit = None
    temperature: float = Field(default=0.8, ge=0, le=100)
    top_k: int = Field(default=40, ge=-1, le=MAX_INT)
    top_p: float = Field(default=0.95, ge=0, le=1)
    min_p: float = Field(default=0.05, ge=0, le=1)
    seed: int | None = None
    stop: Stops = []
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    presence_penalty: float = Field(default=0.0, ge=-10, le=10)
    frequency_penalty: float = Field(default=0.0, ge=-10, le=10)
    repeat_penalty: float = Field(default=1.0, ge=0.01, le=10)
    repeat_last_n: int = Field(default=64, ge=-1, le=MAX_INT)
    logit_bias: dict[str, Bias] = {}
    n: int = 1
    ignore_eos: bool = False
    speculative: SpeculativeOptions = SpeculativeOptions()

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p,
            min_p=self.min_p,
            seed=secrets.randbits(63) if self.seed is None else self.seed % 2**63,
            logit_bias=_bias(self.logit_bias),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repeat_penalty,
            repeat_last_n=self.repeat_last_n,
        )

    def speculation(self) -> Speculation:
        return Speculation(self.speculative.mode, self.speculative.max_draft_tokens)

    def stops(self) -> tuple[str, ...]:
        """Stop strings; empty ones are ignored. Raises RequestError over the limit."""
        if len(self.stop) > MAX_STOPS:
            raise RequestError(f"stop has {len(self.stop)} strings; at most {MAX_STOPS} are allowed", param="stop")
        return tuple(text for text in self.stop if text)

    def check_supported(self) -> None:
        """Raise RequestError for a field that would change the answer and cannot be honoured."""
        if self.n != 1:
            raise RequestError(f"n = {self.n}: only one choice per request is supported; send n requests", param="n")


class ChatRequest(_Generation):
    """Body of POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: TokenLimit = None
    logprobs: bool = False
    top_logprobs: int | None = None
    tools: list[Any] = []
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None
    functions: Any = None
    grammar: Any = None
    json_schema: Any = None

    def prompt(self) -> ChatPrompt:
        return ChatPrompt([_plain_message(message, index) for index, message in enumerate(self.messages)])

    def token_limit(self) -> int | None:
        """max_completion_tokens and max_tokens mean the same; the smaller counts."""
        limits = [limit for limit in (self.max_tokens, self.max_completion_tokens) if limit is not None]
        return min(limits) if limits else None

    def check_supported(self) -> None:
        super().check_supported()
        if self.logprobs or self.top_logprobs:
            raise RequestError("logprobs are not supported; leave the field out", param="logprobs")
        if self.tools and self.tool_choice != "none":
            raise RequestError("tools are not supported; leave them out or set tool_choice to 'none'", param="tools")
        if self.tool_choice not in (None, "none", "auto"):
            raise RequestError("tool_choice asks for a call, and tools are not supported", param="tool_choice")
        for name in ("functions", "grammar", "json_schema"):
            if getattr(self, name):
                raise RequestError(f"{name} is not supported; leave it out", param=name)
        if self.response_format and self.response_format.get("type", "text") != "text":
            kind = self.response_format.get("type")
            raise RequestError(f"response_format {kind!r} is not supported; only 'text' is", param="response_format")


class CompletionRequest(_Generation):
    """Body of POST /v1/completions."""

    prompt: Any = ""
    """Text or token ids, or a list that holds one of these."""
    max_tokens: TokenLimit = DEFAULT_COMPLETION_TOKENS
    echo: bool = False
    suffix: str | None = None
    logprobs: int | None = None
    best_of: int | None = None

    def single_prompt(self) -> TextPrompt | TokenPrompt:
        """Raises RequestError unless there is exactly one prompt."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            if len(prompt) != 1:
                raise RequestError(f"prompt holds {len(prompt)} prompts; send one per request", param="prompt")
            prompt = prompt[0]
        if isinstance(prompt, str):
            return TextPrompt(prompt)
        if isinstance(prompt, list) and all(type(token_id) is int for token_id in prompt):
            return TokenPrompt(prompt)
        raise RequestError("prompt is neither text nor a list of token ids", param="prompt")

    def check_supported(self) -> None:
        super().check_supported()
        # logprobs = 0 asks for the log-probability of the chosen token.
        asked = {"echo": self.echo, "suffix": self.suffix, "logprobs": self.logprobs is not None}
        for name, is_asked in asked.items():
            if is_asked:
                raise RequestError(f"{name} is not supported; leave the field out", param=name)
        if self.best_of not in (None, 1):
            raise RequestError(f"best_of = {self.best_of} is not supported; only 1 is", param="best_of")


class DrafterRequest(_Wire):
    """Body of POST /admin/drafter."""

    mode: DrafterMode


class TokenizeRequest(_Wire):
    content: str
    parse_special: bool = False


class DetokenizeRequest(_Wire):
    tokens: list[int]


def _bias(bias: dict[str, float]) -> dict[int, float]:
    try:
        return {int(token_id): value for token_id, value in bias.items()}
    except ValueError as error:
        raise RequestError(f"logit_bias has a key that is not a token id: {error}", param="logit_bias") from error


def _plain_message(message: Message, index: int) -> dict[str, Any]:
    """A message as templates expect it: content is text, `developer` is `system`."""
    param = f"messages[{index}].content"
    extra = {key: value for key, value in (message.model_extra or {}).items() if value is not None}
    role = "system" if message.role == "developer" else message.role
    if message.content is None and role != "assistant":
        raise RequestError(f"{param} is null; a {role} message needs text", param=param)
    return {"role": role, "content": _plain_content(message.content, param), **extra}


def _plain_content(content: Any, param: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(f"{param} is neither text nor a list of parts", param=param)
    return "".join(_plain_part(part, f"{param}[{index}]") for index, part in enumerate(content))


def _plain_part(part: Any, param: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    if kind not in ("text", "input_text", "output_text", "refusal"):
        raise RequestError(f"{param} has type {kind!r}; this model reads text parts only", param=param)
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str):
        raise RequestError(f"{param} has no text", param=param)
    return text


# Responses


def request_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"


def usage(finished: Finished) -> dict[str, Any]:
    return {
        "prompt_tokens": finished.num_prompt_tokens,
        "completion_tokens": finished.num_output_tokens,
        "total_tokens": finished.num_prompt_tokens + finished.num_output_tokens,
        "prompt_tokens_details": {"cached_tokens": finished.num_cached_tokens},
    }


def extras(finished: Finished) -> dict[str, Any]:
    """Our own fields beside `usage`."""
    return {
        "timings": msgspec.to_builtins(finished.timings),
        "speculative": msgspec.to_builtins(finished.speculation),
    }


class Shape:
    """Builds the objects of one answer: chat or completion, whole or in chunks."""

    def __init__(self, kind: Literal["chat", "completion"], model: str) -> None:
        self._is_chat = kind == "chat"
        self._head = {
            "id": request_id("chatcmpl" if self._is_chat else "cmpl"),
            "created": int(time.time()),
            "model": model,
        }

    @property
    def id(self) -> str:
        return str(self._head["id"])

    def whole(self, finished: Finished) -> dict[str, Any]:
        if self._is_chat:
            message = {"role": "assistant", "content": finished.text, "refusal": None}
            choice: dict[str, Any] = {"index": 0, "message": message}
        else:
            choice = {"index": 0, "text": finished.text}
        choice |= {"logprobs": None, "finish_reason": finished.finish_reason}
        kind = "chat.completion" if self._is_chat else "text_completion"
        return {**self._head, "object": kind, "choices": [choice], "usage": usage(finished), **extras(finished)}

    def first_chunk(self) -> dict[str, Any] | None:
        """Chat streams begin with the role."""
        return self._chunk({"role": "assistant", "content": ""}) if self._is_chat else None

    def chunk(self, text: str) -> dict[str, Any]:
        return self._chunk({"content": text}) if self._is_chat else self._chunk(text)

    def last_chunk(self, finished: Finished) -> dict[str, Any]:
        return {**self._chunk({} if self._is_chat else "", finished.finish_reason), **extras(finished)}

    def usage_chunk(self, finished: Finished) -> dict[str, Any]:
        """Sent only when asked for: no choices, so clients that index the first one must not meet it unasked."""
        return {**self._head, "object": self._chunk_kind, "choices": [], "usage": usage(finished)}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self._is_chat else "text_completion"

    def _chunk(self, content: Any, finish_reason: str | None = None) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta" if self._is_chat else "text": content,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return {**self._head, "object": self._chunk_kind, "choices": [choice]}


def error_body(info: ErrorInfo) -> dict[str, Any]:
    return {"error": {"message": info.message, "type": info.type, "param": info.param, "code": info.code}}


def field_path(parts: Iterable[Any]) -> str:
    """`messages[0].content` from ("messages", 0, "content")."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
