"""What pydantic says against a body, told as of the field that was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from homespec.errors import RequestError
from homespec.wire.base import Wire

M = TypeVar("M", bound=Wire)


def validated(model: type[M], body: dict[str, Any], sent_as: Callable[[str], str]) -> M:
    """A body that was made of another one. Raises RequestError for the first fault, under the name that `sent_as` gives
    to the path of its field.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        path = sent_as(field_path(fault["loc"]))
        raise RequestError(f"{path}: {fault_text(fault)}", param=path) from error


def field_path(parts: Iterable[Any]) -> str:
    """`messages[0].content` from ("messages", 0, "content")."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def fault_text(fault: Mapping[str, Any]) -> str:
    """What pydantic says of a field, with the value where it is a number: any other may hold words of a prompt."""
    given = fault.get("input")
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return f"{fault['msg']}, not {given}" if is_number else str(fault["msg"])
