"""What is sent, and what is made of what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from homespec.bench.measure import Asker, Endpoint, Sampler
from homespec.bench.options import Options
from homespec.bench.other_server import other_server
from homespec.bench.prompts import Prompt
from homespec.bench.sides import OTHER, PLAIN, Side
from homespec.bench.trial import Trial
from homespec.client.http import Client
from tests.bench.servers import answers
from tests.client.daemon_double import DaemonDouble, Reply, sse

PROMPT = Prompt("q", "qa", ("Why?", "And then?"))
END = sse("[DONE]")


@pytest.fixture
def double() -> Iterator[DaemonDouble]:
    with DaemonDouble() as double:
        answers(double)
        yield double


async def words(text: str) -> int:
    """A tokenizer for tests."""
    return len(text.split())


def delta(**fields: str) -> bytes:
    return sse(json.dumps({"choices": [{"delta": fields}]}))


async def asked(double: DaemonDouble, sampler: Sampler | None = None, prompt: Prompt = PROMPT) -> Trial:
    endpoint = Endpoint.of_daemon(Side(PLAIN, "off"), Client(double.url), "run")
    return await Asker(words).ask(endpoint, prompt, sampler or Sampler(8, 0.0, 1))


async def test_every_side_is_sent_the_whole_sampler(double: DaemonDouble) -> None:
    await asked(double, Sampler(8, 0.5, 3))
    [first, _] = [request.json for request in double.asked("/v1/chat/completions")]
    wanted = {"max_tokens": 8, "temperature": 0.5, "seed": 3, "presence_penalty": 0, "frequency_penalty": 0}
    assert wanted.items() <= first.items()
    assert {"top_k", "top_p", "min_p"} <= first.keys()
    assert first["cache_salt"] == "bench-run-plain"


async def test_a_second_turn_follows_the_answer_without_its_thoughts(double: DaemonDouble) -> None:
    double.chat = [delta(reasoning_content="Hm."), delta(content="So."), END]
    trial = await asked(double)
    [_, second] = [request.json["messages"] for request in double.asked("/v1/chat/completions")]
    assert [message["content"] for message in second] == ["Why?", "So.", "And then?"]
    assert trial.texts == ("Hm.So.", "Hm.So.")


async def test_tokens_are_counted_by_our_tokenizer_and_the_first_ones_apart(double: DaemonDouble) -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 20}}
    double.chat = [delta(content="one two"), delta(content=" three"), sse(json.dumps({"usage": usage})), END]
    [turn, _] = (await asked(double)).turns
    assert (turn.num_tokens, turn.num_first_tokens, turn.num_generated) == (3, 2, 9)
    assert (turn.num_computed_prompt, turn.num_cached_prompt) == (30, 20)
    assert double.asked("/v1/chat/completions")[0].json["stream_options"] == {"include_usage": True}


async def test_the_wait_for_the_first_text_is_no_part_of_the_speed(double: DaemonDouble) -> None:
    double.chat = [delta(content="one two three"), END]
    [turn, _] = (await asked(double)).turns
    assert turn.time_to_first_token_s
    assert turn.decode_s == 0.0
    assert turn.num_timed_tokens == 0


async def test_timings_of_llama_server_leave_out_what_was_cached(double: DaemonDouble) -> None:
    timings = {"prompt_n": 30, "cache_n": 20, "predicted_n": 9}
    double.chat = [delta(content="one"), sse(json.dumps({"choices": [], "timings": timings})), END]
    [turn, _] = (await asked(double)).turns
    assert (turn.num_generated, turn.num_computed_prompt, turn.num_cached_prompt) == (9, 30, 20)


@pytest.mark.parametrize("said", [{}, {"usage": {"prompt_tokens": 50}}, {"timings": {"prompt_n": 30}}])
async def test_a_server_that_does_not_say_what_was_cached(double: DaemonDouble, said: dict[str, Any]) -> None:
    double.chat = [delta(content="one"), sse(json.dumps({"choices": [], **said})), END]
    assert (await asked(double)).num_computed_prompt is None


@pytest.mark.parametrize(
    ("owner", "is_salted"), [("vllm", True), ("homespec", True), ("llamacpp", False), (None, False)]
)
async def test_another_server_parts_its_cache_where_it_can(
    double: DaemonDouble, owner: str | None, is_salted: bool
) -> None:
    """Else a second bench would find the prompts of the first one there, and not here."""
    listed = {"data": [{"id": "target", "owned_by": owner}]}
    double.replies["/v1/models"] = Reply(200, json.dumps(listed).encode())
    options = Options(url="u", against=double.url, prompts=Path("p"))
    endpoint = await other_server(Side(OTHER), options, "run")
    assert endpoint.fields == {"model": "target"} | ({"cache_salt": "bench-run"} if is_salted else {})


async def test_homespec_as_the_other_server_is_asked_for_what_it_is_for(double: DaemonDouble) -> None:
    listed = {"data": [{"id": name, "owned_by": "homespec"} for name in ("target", "stored")]}
    double.replies["/v1/models"] = Reply(200, json.dumps(listed).encode())
    endpoint = await other_server(Side(OTHER), Options(url="u", against=double.url), "run")
    assert endpoint.fields["model"] == "target"
