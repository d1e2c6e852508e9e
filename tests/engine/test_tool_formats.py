"""Calls in forms that are made of markers, by models whose vocabulary holds the markers as control tokens."""

from __future__ import annotations

import json

import pytest

from homespec.chat.harmony import make_parser
from homespec.chat.tool_format import ToolFormat, Tools
from homespec.chat.tool_formats import FORMATS
from homespec.frames import ChatPrompt, FunctionSpec, Generate, Sampling, ToolUse
from homespec.wire.answer import Answer
from tests.kits.engines import running
from tests.kits.gguf_kit import MASK, Vocabulary, random_llama
from tests.kits.models import Models

pytestmark = pytest.mark.real

FIRST_MARKER = MASK + 3
"""The first two control tokens behind the mask are the chat template's."""
WRITTEN_IN_MARKERS = [
    FORMATS[name]
    for name in ("glm", "glm_dense", "gemma", "harmony", "lfm2", "kimi_k2", "hy3", "minicpm5", "minimax_m3")
]
SCHEMA = {
    "type": "object",
    "properties": {
        "room": {"enum": ["bath", "hall"]},
        "on": {"type": "boolean"},
        "name": {"type": "string"},
        "scenes": {"type": "object", "properties": {"red": {"type": "boolean"}}, "additionalProperties": False},
    },
    "required": ["room", "on", "name"],
    "additionalProperties": False,
}


def with_markers(vocabulary: Vocabulary, tool_format: ToolFormat) -> Vocabulary:
    for token_id, marker in enumerate(tool_format.markers, FIRST_MARKER):
        vocabulary = vocabulary.with_text(token_id, marker)
    return vocabulary


def closing_soon(tool_format: ToolFormat) -> dict[int, float]:
    """A random model would write its strings for ever."""
    return {ord('"'): 30.0, **{FIRST_MARKER + at: 30.0 for at, _ in enumerate(tool_format.markers)}}


@pytest.mark.parametrize("tool_format", WRITTEN_IN_MARKERS, ids=lambda each: each.name)
def test_a_required_call_reads_back(models: Models, tool_format: ToolFormat) -> None:
    vocabulary = with_markers(models.byte_vocabulary, tool_format)
    function = FunctionSpec("set", json.dumps(SCHEMA), strict=True)
    request = Generate(
        "r",
        ChatPrompt([{"role": "user", "content": "hi"}], markers=tool_format.markers),
        Sampling(1.0, seed=1, logit_bias=closing_soon(tool_format)),
        max_tokens=250,
        tool_use=ToolUse(tool_format.name, (function,), required=True, parallel=False),
    )
    with running(models.write(f"calls-{tool_format.name}", random_llama(vocabulary, seed=3))) as driver:
        [answer] = driver.run(request)
    assert answer.finished.finish_reason == "stop", answer.text
    parser, parts = make_parser(None, Tools(tool_format, {"set": SCHEMA})), Answer()
    for piece in [*parser.push(answer.text), *parser.finish()]:
        parts.add(piece)
    [call] = parts.calls
    arguments = json.loads(call.arguments)
    assert call.name == "set"
    assert arguments["room"] in ("bath", "hall")
    assert isinstance(arguments["on"], bool)
    assert isinstance(arguments["name"], str)
    assert isinstance(arguments.get("scenes", {}), dict)
