"""Bodies and answers of /v1/embeddings and of Ollama's /api/embed and /api/embeddings."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from homespec.errors import RequestError
from homespec.frames import Embed, Embedded
from homespec.wire.base import Wire, looks_like
from homespec.wire.generation import MAX_INT, TokenIds

MAX_INPUTS = 2048
"""As the OpenAI API documents."""

Dimensions = Annotated[int, Field(ge=1, le=MAX_INT)]
_Texts = Annotated[list[str | TokenIds], Field(min_length=1, max_length=MAX_INPUTS)]
Inputs = Annotated[Any, looks_like(str | TokenIds | _Texts)]
"""A text, token ids, or a list of either."""


class EmbeddingRequest(Wire):
    """Body of POST /v1/embeddings."""

    model_config = ConfigDict(json_schema_extra={"required": ["input"]})  # the refusal says more than pydantic's

    model: str | None = None
    input: Inputs = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Dimensions | None = None

    def frame(self, request_id: str) -> Embed:
        """Raises RequestError for an input that is none."""
        return Embed(request_id, inputs_of(self.input), dimensions=self.dimensions)

    def answer(self, model: str, embedded: Embedded) -> dict[str, Any]:
        usage = {"prompt_tokens": embedded.num_tokens, "total_tokens": embedded.num_tokens}
        data = [
            {"object": "embedding", "index": index, "embedding": self._encoded(vector)}
            for index, vector in enumerate(embedded.vectors)
        ]
        return {"object": "list", "data": data, "model": model, "usage": usage}

    def _encoded(self, vector: bytes) -> str | list[float]:
        return base64.b64encode(vector).decode() if self.encoding_format == "base64" else numbers(vector)


class OllamaEmbedRequest(Wire):
    """Body of POST /api/embed. `options` and `keep_alive` have no effect."""

    model: str | None = None
    input: Annotated[Any, looks_like(str | list[str | TokenIds] | list[int])] = None
    truncate: bool = True
    dimensions: Dimensions | None = None

    @property
    def only_loads(self) -> bool:
        """Nothing is to be embedded: clients load a model so."""
        return self.input in (None, "", [])

    def frame(self, request_id: str) -> Embed:
        """Raises RequestError for an input that is none."""
        return Embed(request_id, inputs_of(self.input), dimensions=self.dimensions, truncate=self.truncate)


class OllamaPromptRequest(Wire):
    """Body of POST /api/embeddings, which older clients use."""

    model: str | None = None
    prompt: str = ""

    def frame(self, request_id: str) -> Embed:
        return Embed(request_id, [self.prompt], truncate=True)


def numbers(vector: bytes) -> list[float]:
    """Of a vector as the engine gives it."""
    floats: list[float] = np.frombuffer(vector, "<f4").tolist()
    return floats


def inputs_of(value: Any) -> list[str | list[int]]:
    """The texts and lists of token ids of an `input`. Raises RequestError, naming the one that is neither."""
    if isinstance(value, str) or (isinstance(value, list) and value and _is_token_id(value[0])):
        value = [value]
    if not isinstance(value, list) or not value:
        raise RequestError("input is missing or empty; send a text, token ids, or a list of either", param="input")
    if len(value) > MAX_INPUTS:
        raise RequestError(f"input holds {len(value)} texts; at most {MAX_INPUTS} are allowed", param="input")
    for index, each in enumerate(value):
        if not isinstance(each, str) and not (isinstance(each, list) and all(map(_is_token_id, each))):
            raise RequestError(f"input[{index}] is neither text nor a list of token ids", param="input")
        if not each:
            raise RequestError(f"input[{index}] is empty; leave it out, or send some text", param="input")
    return value


def _is_token_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_INT
