"""Bodies of Ollama's /api/chat and /api/generate, turned into what /v1 takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from homespec.chat.conversation import spelled_result
from homespec.errors import RequestError
from homespec.wire.base import Wire, looks_like
from homespec.wire.chat import ChatRequest
from homespec.wire.faults import validated
from homespec.wire.keep_alive import keep_s
from homespec.wire.requests import CompletionRequest
from homespec.wire.tools import Tool

_SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "stop",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_WITHOUT_LIMIT = (-1, -2, 0)
"""num_predict: for ever, until the context is full, and no limit; here all end with the context."""
_NO_DEFAULT = {"mirostat": 0, "tfs_z": 1.0, "typical_p": 1.0, "penalize_newline": True}
"""Values that ask for nothing."""


_OPTION_OF = {name: f"options.{name}" for name in _SAMPLING} | {"max_tokens": "options.num_predict"}
"""The field that a client knows, by the one that it is turned into."""


class _OllamaRequest(Wire):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    model: str | None = None
    stream: bool = True
    options: dict[str, Any] = Field(default_factory=dict)
    format: Annotated[Any, looks_like(Literal["json", ""] | dict[str, Any])] = None
    keep_alive: Annotated[Any, looks_like(float | str)] = None
    """How long the model stays without a request, where models are unloaded at all."""
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    logprobs: bool = False
    top_logprobs: int | None = None

    def shared(self) -> dict[str, Any]:
        """The fields that chat and completions take alike."""
        options = {key: value for key, value in self.options.items() if value is not None}
        fields = {name: options[name] for name in _SAMPLING if name in options}
        if (limit := options.get("num_predict")) is not None and limit not in _WITHOUT_LIMIT:
            fields["max_tokens"] = limit
        return {**fields, "stream": self.stream, "response_format": self._response_format()}

    @property
    def keep_s(self) -> float | None:
        """Raises RequestError."""
        return keep_s(self.keep_alive)

    def check(self) -> None:
        """Raises RequestError for a field that cannot be honoured, whether there is something to answer or not."""
        self._response_format()
        if self.top_logprobs and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs to be true", param="top_logprobs")

    def thinking(self) -> dict[str, Any]:
        if isinstance(self.think, str):
            return {"reasoning_effort": self.think}
        return {} if self.think is None else {"enable_thinking": self.think}

    def chances(self) -> dict[str, Any]:
        """What is asked of the tokens' probabilities, as chat takes it."""
        return {"logprobs": self.logprobs, "top_logprobs": self.top_logprobs}

    def notices(self, n_ctx: int) -> tuple[str, ...]:
        """Options without effect."""
        known = {*_SAMPLING, "num_predict", "num_ctx"}
        options = {key: value for key, value in self.options.items() if value is not None}
        unused = [key for key in options if key not in known and options[key] != _NO_DEFAULT.get(key)]
        asked = options.get("num_ctx")
        small = [f"the context has {n_ctx} tokens"] if isinstance(asked, int) and asked > n_ctx else []
        return (*(f"options.{key} has no effect" for key in sorted(unused)), *small)

    def _response_format(self) -> dict[str, Any] | None:
        match self.format:
            case None | "":
                return None
            case "json":
                return {"type": "json_object"}
            case dict():
                return {"type": "json_schema", "json_schema": {"schema": self.format}}
        raise RequestError("format is neither 'json' nor a JSON schema", param="format")


class OllamaMessage(Wire):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str | None = None
    images: list[Any] = Field(default_factory=list)
    tool_calls: list[Any] = Field(default_factory=list)
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaChatRequest(_OllamaRequest):
    """Body of POST /api/chat."""

    messages: list[OllamaMessage] = Field(default_factory=list)
    tools: list[Tool] = Field(default_factory=list)

    def notices(self, n_ctx: int) -> tuple[str, ...]:
        _, orphans = _with_ids(self.messages)
        spelled = [f"messages[{at}] is spelled out as text: the call that it answers was not sent" for at in orphans]
        return (*super().notices(n_ctx), *spelled)

    def request(self) -> ChatRequest:
        """Raises RequestError for a field that cannot be honoured."""
        messages, _ = _with_ids(self.messages)
        body = {
            **self.shared(),
            **self.thinking(),
            "messages": messages,
            "tools": self.tools,
            **self.chances(),
        }
        return validated(ChatRequest, body, _sent_as)


class OllamaGenerateRequest(_OllamaRequest):
    """Body of POST /api/generate."""

    prompt: str = ""
    system: str = ""
    raw: bool = False
    suffix: str = ""
    template: str = ""
    context: list[int] = Field(default_factory=list)
    images: list[Any] = Field(default_factory=list)

    def check(self) -> None:
        super().check()
        if self.images:
            raise RequestError("images: this model reads text only", param="images")
        for name, remedy in (
            ("template", "set chat_template when the server is started"),
            ("context", "send the conversation to /api/chat"),
        ):
            if getattr(self, name):
                raise RequestError(f"{name} is not supported; {remedy}", param=name)

    def chat(self) -> ChatRequest:
        """As a conversation of one question."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, {"role": "user", "content": self.prompt}]
        body = {**self.shared(), **self.thinking(), **self.chances(), "messages": messages}
        return validated(ChatRequest, body, _sent_as)

    def completion(self) -> CompletionRequest:
        """As a text that is gone on from, or a gap that is filled, without a template."""
        text = {"prompt": self.prompt, "suffix": self.suffix}
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        body = {"max_tokens": -1, **self.shared(), **text, "logprobs": logprobs}
        return validated(CompletionRequest, body, _sent_as)


class ShowRequest(Wire):
    """Body of POST /api/show."""

    model: str | None = None
    name: str | None = None
    """What older clients send."""


def _with_ids(messages: list[OllamaMessage]) -> tuple[list[dict[str, Any]], list[int]]:
    """Ollama's results name the function, or follow in the order of the calls; here each gets its call's id.

    Also the places of results whose calls were not sent: some clients cut long conversations anywhere (Home Assistant),
    or leave the calls out (older ones of Continue). Those become text.
    """
    plain: list[dict[str, Any]] = []
    waiting: list[tuple[str, str]] = []
    known: set[str] = set()
    orphans: list[int] = []
    for index, message in enumerate(messages):
        if message.images:
            raise RequestError("images: this model reads text only", param=f"messages[{index}].images")
        body: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.thinking:
            body["reasoning_content"] = message.thinking
        if message.tool_calls:
            calls = [_call(call, f"call_{index}_{at}") for at, call in enumerate(message.tool_calls)]
            waiting = [(call["id"], str(call.get("function", {}).get("name"))) for call in calls]
            known.update(call["id"] for call in calls)
            body["tool_calls"] = calls
        if message.role == "tool":
            call_id = message.tool_call_id or _take(waiting, message.tool_name)
            if call_id in known:
                body |= {"tool_call_id": call_id, "name": message.tool_name}
            else:
                orphans.append(index)
                body = {"role": "user", "content": spelled_result(message.content)}
        plain.append(body)
    return plain, orphans


def _call(call: Any, call_id: str) -> dict[str, Any]:
    call = call if isinstance(call, dict) else {}
    function = call.get("function")
    return {
        "id": call.get("id") or call_id,
        "type": "function",
        "function": function if isinstance(function, dict) else {},
    }


def _take(waiting: list[tuple[str, str]], name: str | None) -> str | None:
    """Id of the first call without a result, of this function if one is named."""
    for at, (call_id, function) in enumerate(waiting):
        if name in (None, "", function):
            del waiting[at]
            return call_id
    return None


def _sent_as(path: str) -> str:
    return _OPTION_OF.get(path, path)
