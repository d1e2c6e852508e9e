"""A real daemon that keeps a model loaded while another one answers, as long as there is room for both."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from homespec.units import MIB
from tests.daemons import GREEDY, Daemon, eventually, running
from tests.kits.models import Models

pytestmark = pytest.mark.process

MEASURED = {"HOMESPEC_FIT": "auto"}


def configured(folder: Path, models: Models, *lines: str) -> Path:
    """Two models, of which `letters` is loaded first."""
    config = folder / "homespec.toml"
    digits = models.saying("digits", tuple(b"0123456789"))
    config.write_text("\n".join([f'model = "{models.letters}"', *lines, "[models]", f'digits = "{digits}"']))
    return config


@pytest.fixture(scope="module")
def daemon(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("residents")
    with running(folder, "--config", str(configured(folder, models)), environment=MEASURED) as daemon:
        yield daemon


def say(daemon: Daemon, model: str) -> Any:
    prompt = "0" if model == "digits" else "a"
    body = {"model": model, "prompt": prompt, "max_tokens": 3, **GREEDY}
    response = daemon.post("/v1/completions", body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


def loaded(daemon: Daemon) -> set[str]:
    """As Ollama's clients see it."""
    return {card["name"] for card in httpx.get(f"{daemon.url}/api/ps").json()["models"]}


def starts(daemon: Daemon) -> dict[str, int]:
    found: dict[str, int] = daemon.status()["engine"]["starts"]
    return found


def test_two_models_answer_in_turn_and_each_is_loaded_once(daemon: Daemon) -> None:
    first_pid = daemon.engine_pid
    before = daemon.status()["counters"]["requests"]
    for _ in range(3):
        assert say(daemon, "digits") == "123"
        assert daemon.status()["engine"]["residents"] == ["letters"]
        assert say(daemon, "letters") == "bcd"
        assert daemon.status()["engine"]["residents"] == ["digits"]
    assert daemon.engine_pid == first_pid
    assert loaded(daemon) == {"letters", "digits"}
    assert starts(daemon) == {"boot": 1, "swap": 1}
    eventually(lambda: daemon.status()["counters"]["requests"] - before >= 6, "all are counted")
    assert daemon.restarts() == 0


def test_they_are_listed_with_what_they_hold_and_how_long_they_rest(daemon: Daemon) -> None:
    assert say(daemon, "letters") == "bcd"
    assert say(daemon, "digits") == "123"
    eventually(lambda: daemon.status()["memory"] is not None, "the engine that answers has told of itself")
    [resident] = daemon.status()["memory"]["residents"]
    assert resident["id"] == "letters"
    assert psutil.Process(resident["pid"]).ppid() == daemon.process.pid
    assert resident["memory"]["kv_bytes"] > 0
    eventually(lambda: daemon.status()["memory"]["residents"][0]["idle_s"] > resident["idle_s"], "it rests")
    eventually(lambda: daemon.status()["memory"]["pools"][0]["residents_bytes"] > 0, "its share of the host is told")


def test_what_was_counted_never_goes_back(daemon: Daemon) -> None:
    def counted() -> int:
        return int(daemon.status()["counters"]["output_tokens"])

    start = counted()
    for index, model in enumerate(("letters", "digits", "letters", "digits"), start=1):
        say(daemon, model)
        wanted = start + 3 * index
        eventually(lambda wanted=wanted: counted() == wanted, "its tokens are counted once")  # type: ignore[misc]


def test_the_switch_that_was_turned_meanwhile_holds_for_a_resident_too(daemon: Daemon) -> None:
    for mode in ("off", "auto"):
        assert say(daemon, "digits") == "123"
        assert httpx.post(f"{daemon.url}/admin/drafter", json={"mode": mode}).status_code == 200
        assert say(daemon, "letters") == "bcd"
        eventually(lambda mode=mode: daemon.status()["speculation"]["mode"] == mode, "it holds")  # type: ignore[misc]


def test_a_resident_that_dies_harms_nobody_and_is_loaded_again(daemon: Daemon) -> None:
    assert say(daemon, "letters") == "bcd"
    letters = daemon.engine_pid
    assert say(daemon, "digits") == "123"
    os.kill(letters, signal.SIGKILL)
    eventually(lambda: daemon.status()["engine"]["residents"] == [], "it is not counted on any more")
    assert say(daemon, "digits") == "123"
    assert say(daemon, "letters") == "bcd"
    assert daemon.restarts() == 0


def test_while_nobody_asks_both_are_given_back(models: Models, tmp_path: Path) -> None:
    config = configured(tmp_path, models, "idle_unload_s = 1")
    with running(tmp_path, "--config", str(config), environment=MEASURED) as daemon:
        assert say(daemon, "digits") == "123"
        eventually(lambda: daemon.health().json()["status"] == "idle", "it rests")
        assert loaded(daemon) == set()
        assert daemon.status()["engine"]["residents"] == []
        assert say(daemon, "letters") == "bcd"


def test_residents_are_the_first_to_go_and_none_outlives_the_daemon(models: Models, tmp_path: Path) -> None:
    config = configured(tmp_path, models)
    with running(tmp_path, "--config", str(config), environment=MEASURED) as daemon:
        assert say(daemon, "digits") == "123"
        assert say(daemon, "letters") == "bcd"
        assert daemon.status()["engine"]["residents"] == ["digits"]
        more_than_there_is = 2 * psutil.virtual_memory().total // MIB
        configured(tmp_path, models, f"low_mark_mib = {more_than_there_is}")
        daemon.signal(signal.SIGHUP)
        eventually(lambda: daemon.status()["engine"]["residents"] == [], "the resident has made room")
        assert say(daemon, "letters") == "bcd"
        configured(tmp_path, models)
        daemon.signal(signal.SIGHUP)
        eventually(lambda: say(daemon, "digits") == "123" and len(loaded(daemon)) == 2, "there is room again")
        daemon.signal(signal.SIGTERM)
        eventually(lambda: daemon.survivors() == [], "both are gone")
