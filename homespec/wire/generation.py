"""What requests that generate text have in common.

Null means absent, unknown fields are ignored, known ones are honoured or refused by name.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BeforeValidator, Field

from homespec.errors import RequestError
from homespec.frames import ChatPrompt, Constraint, Generate, Sampling, Speculation, TextPrompt, TokenPrompt
from homespec.wire.base import Wire
from homespec.wire.responses import choice_id

MAX_STOPS = 32
MAX_CHOICES = 16
MAX_TOP_LOGPROBS = 20
MAX_INT = 2**63 - 1
"""The largest number that crosses to the engine."""
MAX_BIAS = 1e6
"""Far beyond any logit, and far from overflowing one."""

DrafterMode = Literal["auto", "off", "draft", "eagle3", "mtp", "dflash", "dspark", "suffix", "ngram"]


class SpeculativeOptions(Wire):
    mode: DrafterMode = "auto"
    max_draft_tokens: int | None = Field(default=None, ge=0, le=64)
    """0: no drafting."""
    acceptance: Literal["coupled", "rejection"] | None = None
    """None: as the server is configured."""
    spans: bool = False
    """Chunks of a stream say which of their text accepted draft tokens wrote."""


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


def _json(value: Any, param: str = "response_format") -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError) as error:
        raise RequestError(f"the schema cannot be used: {error}", param=param) from error


def _unlimited_is_absent(value: Any) -> Any:
    return None if value == -1 and not isinstance(value, bool) else value


def _one_is_a_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_NumTokens = Annotated[int, Field(ge=1, le=MAX_INT)]
# llama.cpp's clients send -1 for "no limit".
TokenLimit = Annotated[
    _NumTokens | None, BeforeValidator(_unlimited_is_absent, json_schema_input_type=_NumTokens | Literal[-1] | None)
]
Stops = Annotated[list[str], BeforeValidator(_one_is_a_list, json_schema_input_type=str | list[str])]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, le=MAX_INT)]], Field(min_length=1)]
Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]


class Generation(Wire):
    """Fields of everything that generates text."""

    model: str | None = None
    max_tokens: TokenLimit = None
    temperature: float = Field(default=0.8, ge=0, le=100)
    top_k: int = Field(default=40, ge=-1, le=MAX_INT)
    top_p: float = Field(default=0.95, ge=0, le=1)
    min_p: float = Field(default=0.05, ge=0, le=1)
    seed: int | None = None
    """None, and llama.cpp's -1: another one each time."""
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
    json_schema: dict[str, Any] | None = None
    """llama-server's field."""
    response_format: ResponseFormat | None = None
    ignore_eos: bool = False
    cache_salt: str | None = None
    """vLLM's field: only requests with the same salt share what the server keeps of earlier ones."""
    cache_prompt: bool = True
    """llama-server's field. False: the prompt is read in full, whatever is kept of earlier ones."""
    speculative: SpeculativeOptions = SpeculativeOptions()

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p,
            min_p=self.min_p,
            seed=secrets.randbits(63) if self.seed in (None, -1) else self.seed % 2**63,
            logit_bias=_bias(self.logit_bias),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repeat_penalty,
            repeat_last_n=self.repeat_last_n,
        )

    def speculation(self) -> Speculation:
        asked = self.speculative
        return Speculation(asked.mode, asked.max_draft_tokens, asked.acceptance, asked.spans)

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
                None
                if self.json_schema is None
                else Constraint("json_schema", _json(self.json_schema, "json_schema"), "json_schema"),
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
            partition=f"{partition}/{self.cache_salt}" if self.cache_salt else partition,
            salted=bool(self.cache_salt),
            reuse=self.cache_prompt,
            ignore_eos=self.ignore_eos,
            **fields,
        )
        return [frame] + [
            msgspec.structs.replace(
                frame,
                request_id=choice_id(request_id, index),
                sampling=msgspec.structs.replace(sampling, seed=(sampling.seed + index) % 2**63),
            )
            for index in range(1, self.n)
        ]


def known_as(param: str, frames: Sequence[Generate]) -> list[Generate]:
    """The same, with the name by which this client knows what the answer must look like."""
    return [
        msgspec.structs.replace(frame, constraint=msgspec.structs.replace(frame.constraint, param=param))
        if frame.constraint
        else frame
        for frame in frames
    ]


def _bias(bias: dict[str, float]) -> dict[int, float]:
    try:
        return {int(token_id): value for token_id, value in bias.items()}
    except ValueError as error:
        raise RequestError(f"logit_bias has a key that is not a token id: {error}", param="logit_bias") from error
