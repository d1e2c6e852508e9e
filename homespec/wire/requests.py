"""Request bodies: null means absent, unknown fields are ignored, known ones are honoured or refused by name."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BeforeValidator, Field

from homespec.errors import RequestError
from homespec.frames import ChatPrompt, Constraint, Generate, Sampling, Speculation, TextPrompt, TokenPrompt
from homespec.wire.base import Wire
from homespec.wire.messages import Message, plain_message

MAX_STOPS = 32
MAX_CHOICES = 16
MAX_TOP_LOGPROBS = 20
MAX_INT = 2**63 - 1
"""The largest number that crosses to the engine."""
MAX_BIAS = 1e6
"""Far beyond any logit, and far from overflowing one."""
DEFAULT_COMPLETION_TOKENS = 16
"""What the OpenAI API documents for /v1/completions without max_tokens."""

DrafterMode = Literal["auto", "off", "draft", "ngram"]


class SpeculativeOptions(Wire):
    mode: DrafterMode = "auto"
    max_draft_tokens: int | None = Field(default=None, ge=0, le=64)
    """0: no drafting."""
    acceptance: Literal["coupled", "rejection"] | None = None
    """None: as the server is configured."""


class StreamOptions(Wire):
    include_usage: bool = False


class JsonSchema(Wire):
    name: str | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Wire):
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    """llama.cpp's place for the schema of a json_object."""

    def constraint(self) -> Constraint | None:
        """Raises RequestError for a json_schema without a schema."""
        match self.type:
            case "text":
                return None
            case "json_object":
                return Constraint("json_schema", _json(self.schema_ or {"type": "object"}), "response_format")
        if self.json_schema is None or self.json_schema.schema_ is None:
            param = "response_format.json_schema.schema"
            raise RequestError(f"{param} is missing; response_format 'json_schema' needs it", param=param)
        return Constraint("json_schema", _json(self.json_schema.schema_), "response_format")


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError) as error:
        raise RequestError(f"the schema cannot be used: {error}", param="response_format") from error


def _unlimited_is_absent(value: Any) -> Any:
    return None if value == -1 and not isinstance(value, bool) else value


def _one_is_a_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# llama.cpp's clients send -1 for "no limit".
TokenLimit = Annotated[Annotated[int, Field(ge=1, le=MAX_INT)] | None, BeforeValidator(_unlimited_is_absent)]
Stops = Annotated[list[str], BeforeValidator(_one_is_a_list)]
Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]


class _Generation(Wire):
    """Fields that chat and completions share."""

    model: str | None = None
    max_tokens: TokenLimit = None
    temperature: float = Field(default=0.8, ge=0, le=100)
    top_k: int = Field(default=40, ge=-1, le=MAX_INT)
    top_p: float = Field(default=0.95, ge=0, le=1)
    min_p: float = Field(default=0.05, ge=0, le=1)
    seed: int | None = None
    stop: Stops = Field(default_factory=list)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    presence_penalty: float = Field(default=0.0, ge=-10, le=10)
    frequency_penalty: float = Field(default=0.0, ge=-10, le=10)
    repeat_penalty: float = Field(default=1.0, ge=0.01, le=10)
    repeat_last_n: int = Field(default=64, ge=-1, le=MAX_INT)
    logit_bias: dict[str, Bias] = Field(default_factory=dict)
    n: int = Field(default=1, ge=1, le=MAX_CHOICES)
    regex: str | None = None
    grammar: str | None = None
    response_format: ResponseFormat | None = None
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
        asked = self.speculative
        return Speculation(asked.mode, asked.max_draft_tokens, asked.acceptance)

    def stops(self) -> tuple[str, ...]:
        """Stop strings; empty ones are ignored. Raises RequestError over the limit."""
        if len(self.stop) > MAX_STOPS:
            raise RequestError(f"stop has {len(self.stop)} strings; at most {MAX_STOPS} are allowed", param="stop")
        return tuple(text for text in self.stop if text)

    def constraint(self) -> Constraint | None:
        """The one thing that the answer must look like. Raises RequestError for two of them."""
        given = [
            constraint
            for constraint in (
                self.response_format.constraint() if self.response_format else None,
                Constraint("regex", self.regex, "regex") if self.regex else None,
                Constraint("grammar", self.grammar, "grammar") if self.grammar else None,
            )
            if constraint
        ]
        if len(given) > 1:
            names = " and ".join(constraint.param for constraint in given)
            raise RequestError(f"{names} cannot be combined; send one of them", param=given[1].param)
        return given[0] if given else None

    def generate_frames(
        self, request_id: str, prompt: ChatPrompt | TextPrompt | TokenPrompt, *, partition: str, **fields: Any
    ) -> list[Generate]:
        """One frame per choice; the choices of one request differ in their seed only."""
        sampling = self.sampling()
        frame = Generate(
            request_id=request_id,
            prompt=prompt,
            sampling=sampling,
            speculation=self.speculation(),
            stop=self.stops(),
            stream=self.stream,
            partition=partition,
            ignore_eos=self.ignore_eos,
            constraint=self.constraint(),
            **fields,
        )
        return [frame] + [
            msgspec.structs.replace(
                frame,
                request_id=f"{request_id}-{index}",
                sampling=msgspec.structs.replace(sampling, seed=(sampling.seed + index) % 2**63),
            )
            for index in range(1, self.n)
        ]


class ChatRequest(_Generation):
    """Body of POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: TokenLimit = None
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    tools: list[Any] = Field(default_factory=list)
    tool_choice: Any = None
    functions: list[Any] = Field(default_factory=list)

    def frames(self, request_id: str, *, partition: str) -> list[Generate]:
        """What the engine is asked. Raises RequestError for a field that cannot be honoured."""
        if self.tools and self.tool_choice != "none":
            raise RequestError("tools are not supported; leave them out or set tool_choice to 'none'", param="tools")
        if self.tool_choice not in (None, "none", "auto"):
            raise RequestError("tool_choice asks for a call, and tools are not supported", param="tool_choice")
        if self.functions:
            raise RequestError("functions are not supported; leave the field out", param="functions")
        if self.top_logprobs and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs to be true", param="top_logprobs")
        return self.generate_frames(
            request_id,
            ChatPrompt([plain_message(message, index) for index, message in enumerate(self.messages)]),
            partition=partition,
            max_tokens=self._token_limit(),
            num_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )

    def _token_limit(self) -> int | None:
        """max_completion_tokens and max_tokens mean the same; the smaller counts."""
        limits = [limit for limit in (self.max_tokens, self.max_completion_tokens) if limit is not None]
        return min(limits) if limits else None


class CompletionRequest(_Generation):
    """Body of POST /v1/completions."""

    prompt: Any = ""
    """Text or token ids, or a list that holds one of these."""
    max_tokens: TokenLimit = DEFAULT_COMPLETION_TOKENS
    echo: bool = False
    suffix: str | None = None
    logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    best_of: int | None = None

    def frames(self, request_id: str, *, partition: str) -> list[Generate]:
        """What the engine is asked. Raises RequestError for a field that cannot be honoured."""
        if self.suffix:
            raise RequestError("suffix is not supported; leave the field out", param="suffix")
        if self.best_of not in (None, self.n):
            raise RequestError(f"best_of = {self.best_of} is not supported; use n", param="best_of")
        if self.echo and self.logprobs is not None:
            raise RequestError("echo with logprobs is not supported: leave one of them out", param="echo")
        return self.generate_frames(
            request_id,
            self._single_prompt(),
            partition=partition,
            max_tokens=self.max_tokens,
            num_logprobs=self.logprobs,
            echo=self.echo,
        )

    def _single_prompt(self) -> TextPrompt | TokenPrompt:
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


class DrafterRequest(Wire):
    """Body of POST /admin/drafter."""

    mode: DrafterMode


class TokenizeRequest(Wire):
    content: str
    parse_special: bool = False


class DetokenizeRequest(Wire):
    tokens: list[int]


def _bias(bias: dict[str, float]) -> dict[int, float]:
    try:
        return {int(token_id): value for token_id, value in bias.items()}
    except ValueError as error:
        raise RequestError(f"logit_bias has a key that is not a token id: {error}", param="logit_bias") from error
