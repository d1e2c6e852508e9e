"""What is found out about templates by rendering samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.engine.chat_format import CHATML, examine, read_source
from homespec.engine.llama.gguf import open_header
from homespec.engine.template import ChatTemplate
from homespec.errors import ModelUnsupported
from homespec.status import ChatFormat
from tests.kits.models import Models

TOOLS = "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}<tool_call>{% endif %}"
LOOP = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"


def of(source: str) -> ChatFormat:
    return examine(ChatTemplate(source), "the model file")


def test_the_demo_model(models: Models) -> None:
    with open_header(models.demo) as header:
        source = header.get("tokenizer.chat_template")
    assert isinstance(source, str)
    found = of(source)
    assert (found.name, found.tool_format, found.reasoning) == ("chatml", None, None)
    assert found.takes_system
    assert found.takes_neighbours


def test_roles() -> None:
    no_system = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + LOOP
    ignored = "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    alternating = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}"
        "{% endif %}{{ m.content }}{% endfor %}"
    )
    assert of(LOOP).takes_system
    assert not of(no_system).takes_system
    assert not of(ignored).takes_system
    assert of(no_system).takes_neighbours
    assert not of(alternating).takes_neighbours


def test_tools() -> None:
    calls = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ ARGUMENTS }}{% endfor %}{% endfor %}"
    objects = calls.replace("ARGUMENTS", "c.function.arguments.probe_key")
    text = calls.replace("ARGUMENTS", "'' + c.function.arguments")
    assert of(TOOLS + LOOP).tool_format == "hermes"
    assert of("{{ '<tool_call>' }}" + LOOP).tool_format is None  # speaks of calls, and is not given any tools
    assert of("{% if tools %}<other>{% endif %}").tool_format is None
    assert of(TOOLS + LOOP + objects).takes_objects
    assert not of(TOOLS + LOOP + text).takes_objects


def test_thinking_and_variables() -> None:
    found = of("{% if enable_thinking %}<think>{% endif %}{{ m.split('</think>') }}" + LOOP)
    assert found.reasoning == ("<think>", "</think>")
    assert "enable_thinking" in found.variables
    assert "messages" not in found.variables


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        ("<|START_THINKING|><|END_THINKING|>", ("<|START_THINKING|>", "<|END_THINKING|>")),
        ("<thinking>{{ thought }}</thinking>", ("<thinking>", "</thinking>")),
        ("Here are my reasoning steps:\n", ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]")),
        ("think well", None),
    ],
)
def test_marks_around_thinking(words: str, marks: tuple[str, str] | None) -> None:
    assert of(LOOP + words).reasoning == marks


def test_the_source_of_a_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.jinja"
    path.write_text("own")
    assert read_source("auto", "its own") == ("its own", "the model file")
    assert read_source("auto", None) is None
    assert read_source("chatml", "its own") == (CHATML, "built in")
    assert read_source(str(path), None) == ("own", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_source("~/own.jinja", None) == ("own", "~/own.jinja")
    with pytest.raises(ModelUnsupported, match="chatml"):
        read_source("chatlm", None)
