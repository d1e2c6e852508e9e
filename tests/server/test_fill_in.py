"""A gap between two texts, filled by a model that was taught it."""

from __future__ import annotations

from typing import Any

import ollama
import pytest

from tests.daemons import GREEDY, HTTP_TIMEOUT_S, Daemon, fault

pytestmark = [pytest.mark.process, pytest.mark.real]


def test_a_completion_with_a_suffix_fills_the_gap(filler: Daemon) -> None:
    with filler.client() as client:
        answer = client.completions.create(
            model="default", prompt="def f(", suffix="): pass", max_tokens=4, temperature=0
        )
        chunks = list(
            client.completions.create(
                model="default", prompt="def f(", suffix="): pass", max_tokens=4, temperature=0, stream=True
            )
        )
    assert answer.choices[0].text == "abcd"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len("def f(): pass") + 3
    assert "".join(chunk.choices[0].text for chunk in chunks) == "abcd"


def test_the_model_sees_the_prompt_the_suffix_and_then_the_gap(filler: Daemon) -> None:
    """Whatever stands in the texts stays text."""
    gap = filler.complete("a<|fim_middle|>", 1, suffix="b", logprobs=0)
    assert gap["usage"]["prompt_tokens"] == len("a<|fim_middle|>") + 1 + 3
    spelled = [264, *b"a", 265, *b"b", 266]
    by_hand = filler.post("/v1/completions", {"prompt": spelled, "max_tokens": 3, **GREEDY}).json()
    assert filler.complete("a", 3, suffix="b")["choices"] == by_hand["choices"]


@pytest.mark.parametrize("stream", [False, True])
def test_ollama_s_client(filler: Daemon, stream: bool) -> None:
    options = {"temperature": 0, "num_predict": 3}
    with ollama.Client(host=filler.url, timeout=HTTP_TIMEOUT_S) as client:
        generate: Any = client.generate
        said = generate("gap-filler", "x", suffix="y", options=options, stream=stream)
        parts = list(said) if stream else [said]
        assert "insert" in (client.show("gap-filler").capabilities or [])
    assert "".join(part["response"] for part in parts) == "abc"


def test_a_model_that_was_not_taught_it_says_so(thinker: Daemon) -> None:
    for path, body in (
        ("/v1/completions", {"prompt": "a", "suffix": "b"}),
        ("/api/generate", {"prompt": "a", "suffix": "b", "stream": False}),
    ):
        response = thinker.post(path, body)
        assert response.status_code == 400
        assert fault(response)[0] == "no_fill_in"


@pytest.mark.parametrize(
    ("fields", "param"), [({"prompt": [1, 2], "suffix": "b"}, "suffix"), ({"suffix": "b", "echo": True}, "echo")]
)
def test_what_cannot_be_combined_is_refused(filler: Daemon, fields: dict[str, object], param: str) -> None:
    response = filler.post("/v1/completions", {"prompt": "a", **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
