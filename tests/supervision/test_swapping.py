"""A real daemon with several models, of which one is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.daemons import GREEDY, Daemon, fault, running
from tests.kits import gguf_kit
from tests.kits.models import Models

pytestmark = pytest.mark.process

SAYS = {"letters": "bcd", "digits": "123", "stored": "yz"}
"""To "a", or to "0"."""


@pytest.fixture(scope="module")
def daemon(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("swapping")
    store = folder / "store"
    store.mkdir()
    gguf_kit.markov_llama(gguf_kit.cycle(tuple(b"ayz"))).write(store / "stored.gguf")
    foreign = replace(gguf_kit.markov_llama(gguf_kit.permutation()), architecture="nextyear")
    (folder / "notes.gguf").write_text("not a model")
    config = folder / "homespec.toml"
    config.write_text(
        f"""
        model = "{models.letters}"
        models_dir = "{store}"
        turn_s = 0.5
        [models]
        digits = "{models.saying("digits", tuple(b"0123456789"))}"
        notes = "{folder / "notes.gguf"}"
        [models.foreign]
        path = "{foreign.write(folder / "foreign.gguf")}"
        ctx = 512
        """
    )
    with running(folder, "--config", str(config)) as daemon:
        yield daemon


def say(daemon: Daemon, model: str, num_tokens: int = 3) -> Any:
    prompt = "0" if model == "digits" else "a"
    response = daemon.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": num_tokens, **GREEDY})
    assert response.status_code == 200, response.text
    assert response.json()["model"] == model
    return response.json()["choices"][0]["text"]


def residences(daemon: Daemon) -> dict[str, str]:
    cards = httpx.get(f"{daemon.url}/v1/models").json()["data"]
    return {card["id"]: card["status"]["value"] for card in cards}


def starts(daemon: Daemon) -> Any:
    return daemon.status()["engine"]["starts"]


def test_a_request_for_another_model_has_it_loaded(daemon: Daemon) -> None:
    assert residences(daemon) == {
        "letters": "loaded",
        "digits": "unloaded",
        "notes": "unloaded",
        "foreign": "unloaded",
        "stored": "unloaded",
    }
    assert say(daemon, "digits") == "123"
    there = residences(daemon)
    assert (there["letters"], there["digits"]) == ("unloaded", "loaded")
    [running_card] = httpx.get(f"{daemon.url}/api/ps").json()["models"]
    assert running_card["name"] == "digits"
    cards = httpx.get(f"{daemon.url}/api/tags").json()["models"]
    assert {card["name"] for card in cards} == set(there)
    assert len({frozenset(card["details"]) for card in cards}) == 1  # loaded or not, the same fields
    assert daemon.health().json()["model"] == "digits"
    known = daemon.post("/api/show", {"model": "stored"}).json()
    assert known["model_info"]["general.architecture"] == "llama"
    assert known["details"]["parameter_size"]
    assert starts(daemon)["swap"] == 1  # a question about a model does not load it
    body = {"model": "stored", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
    assert daemon.post("/v1/chat/completions", body).json()["model"] == "stored"
    assert say(daemon, "letters") == "bcd"
    assert daemon.restarts() == 0


def test_an_unknown_name_is_told_what_there_is(daemon: Daemon) -> None:
    response = daemon.post("/v1/completions", {"model": "gpt-9", "prompt": "a"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    for name in ("letters", "digits", "stored"):
        assert f"'{name}'" in response.json()["error"]["message"]


@pytest.mark.parametrize(("name", "why"), [("notes", "is not a GGUF file"), ("foreign", "'nextyear'")])
def test_a_model_that_cannot_be_loaded_harms_nobody_else(daemon: Daemon, name: str, why: str) -> None:
    assert say(daemon, "letters") == "bcd"
    for path, body in (("/v1/completions", {"prompt": "a"}), ("/api/chat", {"messages": []})):
        response = daemon.post(path, {"model": name, **body})
        assert response.status_code == 500
        code, message = fault(response)
        assert code == "load_failed"
        assert why in message
    assert daemon.health().status_code == 200
    assert say(daemon, "letters") == "bcd"


def test_each_request_is_answered_by_its_model_and_none_is_cut_off(daemon: Daemon) -> None:
    """A long answer runs, and requests for both models come meanwhile."""
    assert say(daemon, "letters") == "bcd"
    swaps = starts(daemon).get("swap", 0)
    names = ["letters", "digits"] * 6
    body = {"model": "letters", "prompt": "a", "max_tokens": 400, **GREEDY}
    with ThreadPoolExecutor(len(names)) as pool, daemon.stream("/v1/completions", body) as stream:
        stream.first_text()
        texts = pool.map(lambda name: say(daemon, name), names)
        *_, last = stream.events()
        assert last["choices"][0]["finish_reason"] == "length"
        assert list(texts) == [SAYS[name] for name in names]
    assert starts(daemon)["swap"] - swaps < len(names) / 2
    assert daemon.restarts() == 0
