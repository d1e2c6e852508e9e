"""What is known of a model, in the shape of Ollama's /api/show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from homespec.errors import ErrorInfo, ModelError, RequestError
from homespec.server.models import capabilities
from homespec.status import ModelStatus
from homespec.store.shards import read_parts


def details_of(facts: ModelStatus | None) -> dict[str, Any]:
    """Every field also of a model that has never been loaded: some clients cannot read a list that lacks one."""
    if facts is None:
        return _details("", "", "")
    # llama.cpp describes a model as "llama 135M Q4_1".
    return _details(facts.architecture, _size(facts.num_params), facts.description.rpartition(" ")[2])


def card_of(facts: ModelStatus) -> dict[str, Any]:
    """Of a model that is or was loaded."""
    return {
        "details": details_of(facts),
        "model_info": {
            "general.architecture": facts.architecture,
            "general.parameter_count": facts.num_params,
            f"{facts.architecture}.context_length": facts.n_ctx_train,
            f"{facts.architecture}.block_count": facts.n_layer,
            f"{facts.architecture}.vocab_size": facts.n_vocab,
            **_width(facts),
        },
        "capabilities": capabilities(facts),
    }


def card_of_file(path: Path) -> dict[str, Any]:
    """The same from the headers of its files, without what only a load tells. Raises RequestError for a broken one."""
    try:
        headers = read_parts(path)
    except ModelError as error:
        raise RequestError.of(ErrorInfo(str(error), 500, "server_error", "model", "load_failed")) from error
    first = headers[0]
    num_params = sum(tensor.num_elements for header in headers for tensor in header.tensors)
    named = {key: value for key, value in first.metadata.items() if key.startswith(f"{first.architecture}.")}
    vocabulary = {f"{first.architecture}.vocab_size": first.n_vocab}
    has_template = "tokenizer.chat_template" in first.metadata
    return {
        "details": _details(first.architecture or "", _size(num_params), first.quant or ""),
        "model_info": {
            **vocabulary,
            **named,
            "general.architecture": first.architecture,
            "general.parameter_count": num_params,
        },
        "capabilities": ["completion", *(["tools"] if has_template else [])],
    }


def _width(facts: ModelStatus) -> dict[str, int]:
    """By which clients size the tables of their vectors."""
    if facts.embedding is None:
        return {}
    return {f"{facts.architecture}.embedding_length": facts.embedding.num_dimensions}


def _details(architecture: str, size: str, quant: str) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": architecture,
        "families": [architecture] if architecture else [],
        "parameter_size": size,
        "quantization_level": quant,
    }


def _size(num_params: int) -> str:
    """`134.5M`, `7.6B`."""
    billions = num_params / 1e9
    return f"{billions:.1f}B" if billions >= 1 else f"{billions * 1000:.1f}M"
