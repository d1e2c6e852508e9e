"""Chat messages to a prompt, with the template that the model file carries.

A template is code from a stranger: it runs in Jinja's immutable sandbox, within a time and an output limit.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from homespec.errors import ModelUnsupported, RequestError

TIME_LIMIT_S = 2.0
OUTPUT_LIMIT_CHARS = 8_000_000
_SEQUENCE_LIMIT = 10_000_000


class _OverTime(BaseException):
    """Raised by the timer inside a running template; not an Exception, so a template cannot swallow it."""


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox, with the arithmetic that could fill memory in one step bounded."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and max(abs(left), abs(right)) > 1000:
            raise jinja2.exceptions.SecurityError(f"{left} ** {right} is over the sandbox's limit")
        if operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if hasattr(sequence, "__len__") and len(sequence) * times > _SEQUENCE_LIMIT:
                    raise jinja2.exceptions.SecurityError(f"a sequence repeated {times} times is over the limit")
        return super().call_binop(context, operator, left, right)


class _GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}`, which marks answers for training: its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 — the type that the base class declares

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template. Raises ModelUnsupported when it does not compile."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        environment = _Sandbox(
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            extensions=[jinja2.ext.loopcontrols, _GenerationBlock],
        )
        environment.filters["tojson"] = _tojson
        environment.globals.update(
            raise_exception=_raise_exception, strftime_now=time.strftime, bos_token=bos, eos_token=eos
        )
        self.source = source
        # Templates are written for one of two ways to say that there are no tools: none, or no such variable.
        self._asks_for_tools = "tools is defined" in source
        self.bos = bos
        try:
            self._template = environment.from_string(source)
            self.variables = frozenset(jinja2.meta.find_undeclared_variables(environment.parse(source)))
        except jinja2.TemplateError as error:
            raise ModelUnsupported(f"the model's chat template does not compile: {error}") from error

    def render(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt. Raises RequestError with the template's own reason, or with the limit it ran into."""
        values = {**(variables or {}), "messages": messages, "add_generation_prompt": add_generation_prompt}
        if tools or not self._asks_for_tools:
            values["tools"] = tools or None
        try:
            with _time_limit(TIME_LIMIT_S):
                return _join(self._template.generate(values), OUTPUT_LIMIT_CHARS)
        except _OverTime:
            raise RequestError(
                f"the model's chat template ran longer than {TIME_LIMIT_S:g} s; use /v1/completions with this model",
                code="template_timeout",
                param="messages",
            ) from None
        except RequestError:
            raise
        except Exception as error:  # a template may raise anything: it is a request edge
            raise RequestError(
                f"the model's chat template refuses these messages: {error}", code="template_error", param="messages"
            ) from error


def _join(chunks: Iterator[str], limit: int) -> str:
    parts: list[str] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise RequestError(
                f"the rendered prompt is over {limit} characters; send fewer or shorter messages",
                code="template_output_limit",
                param="messages",
            )
        parts.append(chunk)
    return "".join(parts)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _OverTime in this thread once the time is over. Works in any thread, unlike a signal."""
    thread_id = threading.get_ident()
    lock, is_over = threading.Lock(), False

    def expire() -> None:
        with lock:
            if not is_over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(_OverTime))

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_over = True
        timer.cancel()


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Like transformers' filter: plain JSON, no HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
