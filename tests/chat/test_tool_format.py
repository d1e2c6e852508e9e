from __future__ import annotations

import pytest

from homespec.chat.tool_family import known_by_tokens, named_in
from homespec.chat.tool_format import ToolFormat
from homespec.chat.tool_formats import FORMATS


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ 'return <tool_call>\\n{\"name\": ...}\\n</tool_call>' }}", "hermes"),
        ('<|start_header_id|>{{ \'{"name": "\' + name + \'", "parameters": \' }}', "llama3"),
        ("{{ '<|python_tag|>' }}", "llama3"),
        ("{{ '[TOOL_CALLS] [' }}", "mistral_spaced"),
        ("{{ '[TOOL_CALLS][' }}", "mistral"),
        ("{{ '[TOOL_CALLS]' + name + '[ARGS]' }}", "mistral_args"),
        ("{{ '<｜tool▁calls▁begin｜>' }}```json", "deepseek"),
        ("{{ '<｜tool▁calls▁begin｜>' }}", "deepseek_v31"),
        ('<|tool_call|>{"name": "f"}<|/tool_call|>', "phi"),
        ("<|tool_call|>[{}]<|/tool_call|>", "phi_list"),
        ("<TOOLCALL>[]</TOOLCALL>", "nemotron"),
        ("in <tool_call></tool_call> tags: <tool_calls>[{...}]</tool_calls>", "apriel"),
        ("<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>", "glm"),
        ("<tool_call>f<arg_key>x</arg_key><arg_value>", "glm_dense"),
        ("<seed:tool_call>\n<function=f>\n<parameter=x>", "seed"),
        ('"functions." + name + "<|channel|>commentary json<|message|>"', "harmony"),
        ("<|tool_call>call:f{x:1}<tool_call|>", "gemma"),
        ("<|tool_call|>", "granite"),
        ("<function={{ name }}>{{ arguments }}</function>", "functionary"),
        ("<tool_call>\n<function=f>\n<parameter=x>", "qwen_xml"),
        ('<minimax:tool_call>\n<invoke name="f">', "minimax"),
        ('<calls>\n<invoke name="f">', None),
        ("List of tools: <|tool_list_start|>[", "lfm2"),
        ("{{ messages }}", None),
    ],
)
def test_a_template_tells_its_format(template: str, expected: str | None) -> None:
    assert named_in(template) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ({"<|tool_call_start|>", "<|tool_call_end|>", "<|im_end|>"}, "lfm2"),
        ({"<|tool_call_start|>"}, None),
        ({"<tool_call>", "</tool_call>"}, None),  # two families write these
        ({"<|python_tag|>"}, None),  # of the model that many others were made of
        (set(), None),
    ],
)
def test_a_vocabulary_tells_a_format_of_its_own(tokens: set[str], expected: str | None) -> None:
    assert known_by_tokens(tokens.__contains__) == expected


@pytest.mark.parametrize("tool_format", FORMATS.values(), ids=FORMATS)
def test_a_trigger_starts_every_call(tool_format: ToolFormat) -> None:
    assert tool_format.trigger
    assert tool_format.start.startswith(tool_format.trigger)
