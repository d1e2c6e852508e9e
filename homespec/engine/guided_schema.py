"""JSON schemas with what llguidance is told about them, under `x-guidance`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

WHITESPACE = r"[\x20\x0A\x0D\x09]{1,40}"
"""Unbounded white space is a trap for small models: legal for ever, and never an answer."""


def guided(schema: dict[str, Any], *, lenient: bool = False) -> dict[str, Any]:
    """The same schema with a bound on white space. lenient: keywords that no grammar can express are passed over.

    What the schema says of itself goes before both; when that is no object, it is left for llguidance to refuse.
    """
    own = schema.get("x-guidance", {})
    if not isinstance(own, dict):
        return schema
    ours: JsonCompileOptions = {"whitespace_pattern": WHITESPACE, "lenient": lenient}
    return {**schema, "x-guidance": {**ours, **own}}
