"""Drafters per request and for the whole server: they change the speed, never the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemons import GREEDY, Daemon, eventually, running, text_of
from tests.kits.models import Models
from tests.server.conftest import REPEATABLE_FLAGS, REPEATABLE_SETTINGS

pytestmark = [pytest.mark.process, pytest.mark.real]

REPETITIVE = "red green blue red green blue red green blue red"
SAMPLED = {"temperature": 0.8, "seed": 5}


def answer(daemon: Daemon, speculative: Any, **fields: Any) -> Any:
    return daemon.complete(REPETITIVE, fields.pop("max_tokens", 16), speculative=speculative, **fields)


def text(whole: Any) -> str:
    return str(whole["choices"][0]["text"])


@pytest.fixture
def switched(demo: Daemon) -> Iterator[Daemon]:
    """The shared daemon, set back to `auto` afterwards."""
    yield demo
    assert demo.post("/admin/drafter", {"mode": "auto"}).status_code == 200


@pytest.mark.usefixtures("unharmed")
class TestPerRequest:
    @pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
    def test_the_text_does_not_depend_on_the_drafter(self, demo: Daemon, sampling: dict[str, Any]) -> None:
        plain = answer(demo, {"mode": "off"}, **sampling)
        drafted = answer(demo, {"mode": "ngram"}, **sampling)
        short = answer(demo, {"mode": "ngram", "max_draft_tokens": 2}, **sampling)

        assert text(plain) == text(drafted) == text(short)
        assert plain["usage"]["completion_tokens"] == drafted["usage"]["completion_tokens"]

    def test_off_means_no_drafts(self, demo: Daemon) -> None:
        for speculative in ({"mode": "off"}, {"max_draft_tokens": 0}, {"mode": "ngram", "max_draft_tokens": 0}):
            report = answer(demo, speculative, **GREEDY)["speculative"]
            assert report["state"] == "off"
            assert "request" in report["reason"]
            assert report["drafted"] == 0
            assert report["drafters"] == {}
            assert report["acceptance_length"] == 1.0

    def test_ngram_drafts_and_counts(self, demo: Daemon) -> None:
        whole = answer(demo, {"mode": "ngram"}, **GREEDY)
        report, timings = whole["speculative"], whole["timings"]
        assert report["state"] == "ready"
        assert report["drafters"]["ngram"] >= 1
        assert report["drafted"] == timings["draft_n"] >= report["accepted"] == timings["draft_n_accepted"] > 0
        assert report["rounds"] < whole["usage"]["completion_tokens"]
        assert report["acceptance_length"] == pytest.approx(1 + report["accepted"] / report["rounds"])
        assert report["per_position"] == sorted(report["per_position"], reverse=True)

    def test_no_draft_is_longer_than_the_request_allows(self, demo: Daemon) -> None:
        report = answer(demo, {"mode": "ngram", "max_draft_tokens": 2}, **GREEDY)["speculative"]
        assert 0 < report["drafted"] <= 2 * report["drafters"]["ngram"]
        assert len(report["per_position"]) <= 2

    def test_a_drafter_that_is_not_there_says_so(self, demo: Daemon) -> None:
        report = answer(demo, {"mode": "draft"}, max_tokens=2, **GREEDY)["speculative"]
        assert report["state"] == "off"
        assert "--draft" in report["reason"]


class TestSwitch:
    def test_off_and_back_in_the_middle_of_an_answer(self, switched: Daemon) -> None:
        body = {"prompt": REPETITIVE, "max_tokens": 24, **SAMPLED}
        plain = answer(switched, {"mode": "off"}, max_tokens=24, **SAMPLED)
        pieces: list[str] = []
        with switched.stream("/v1/completions", body) as stream:
            for event in stream.events():
                pieces.append(text_of(event))
                last = event
                if len(pieces) == 2:
                    assert switched.post("/admin/drafter", {"mode": "off"}).json() == {"mode": "off"}
        assert "".join(pieces) == text(plain)
        assert last["speculative"]["state"] == "off"

    def test_off_is_seen_everywhere(self, switched: Daemon) -> None:
        switched.post("/admin/drafter", {"mode": "off"})
        eventually(lambda: switched.status()["speculation"]["mode"] == "off", "the engine follows")
        status = switched.status()
        assert status["speculation"]["drafter"] is None
        assert status["speculation"]["state"] == "off"
        assert "whole server" in status["speculation"]["reason"]
        assert any("'off'" in event["text"] for event in status["events"])
        health = switched.health().json()
        assert health["drafter"] is None
        assert health["drafter_state"] == "off"
        assert "whole server" in health["drafter_reason"]
        report = answer(switched, {"mode": "ngram"}, max_tokens=4, **GREEDY)["speculative"]
        assert report["state"] == "off"
        assert "whole server" in report["reason"]

        switched.post("/admin/drafter", {"mode": "auto"})
        eventually(lambda: switched.health().json()["drafter_state"] == "ready", "drafting is back")
        assert answer(switched, {}, **GREEDY)["speculative"]["drafted"] > 0

    def test_one_that_is_not_there_is_taken_with_the_reason(self, switched: Daemon) -> None:
        told = switched.post("/admin/drafter", {"mode": "draft"}).json()
        assert told == {"mode": "draft", "reason": "no draft model configured; pass --draft PATH"}
        assert switched.post("/admin/drafter", {"mode": "auto"}).json() == {"mode": "auto"}

    def test_an_unknown_mode_changes_nothing(self, switched: Daemon) -> None:
        before = switched.status()["speculation"]["mode"]
        response = switched.post("/admin/drafter", {"mode": "warp"})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "mode"
        assert switched.status()["speculation"]["mode"] == before


@pytest.fixture(scope="module")
def self_draft(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The model as its own drafter."""
    flags = ("--demo", "--draft", str(models.demo), *REPEATABLE_FLAGS)
    with running(tmp_path_factory.mktemp("self-draft"), *flags, environment=REPEATABLE_SETTINGS) as daemon:
        eventually(lambda: daemon.health().json()["drafter"] == "draft", "the drafter is loaded", 60)
        yield daemon


@pytest.fixture(scope="module")
def controlled(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The same with a controller that bets or does not."""
    flags = ("--demo", "--draft", str(models.demo), *REPEATABLE_FLAGS)
    settings = {**REPEATABLE_SETTINGS, "HOMESPEC_CONTROLLER": "auto"}
    with running(tmp_path_factory.mktemp("controlled"), *flags, environment=settings) as daemon:
        eventually(lambda: daemon.health().json()["drafters"]["draft"]["state"] == "ready", "the drafter is loaded", 60)
        yield daemon


class TestSelfDraft:
    @pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
    def test_the_text_is_the_same(self, demo: Daemon, self_draft: Daemon, sampling: dict[str, Any]) -> None:
        plain = answer(demo, {"mode": "off"}, **sampling)
        drafted = answer(self_draft, {"mode": "draft"}, **sampling)
        assert text(drafted) == text(plain)
        report = drafted["speculative"]
        assert report["drafters"] == {"draft": report["drafters"]["draft"]}
        # Its keys are rounded otherwise than the target's, so that a near-tie may fall the other way.
        assert report["accepted"] >= report["drafted"] / 2 > 0

    def test_switching_unloads_it_and_loads_it_again(self, self_draft: Daemon) -> None:
        assert self_draft.status()["memory"]["drafter"]["weights_bytes"] > 0
        self_draft.post("/admin/drafter", {"mode": "ngram"})
        eventually(lambda: self_draft.health().json()["drafters"]["draft"]["state"] == "off", "it is unloaded")
        assert self_draft.status()["memory"]["drafter"]["weights_bytes"] == 0
        self_draft.post("/admin/drafter", {"mode": "auto"})
        eventually(lambda: self_draft.health().json()["drafter"] == "draft", "it is loaded again", 60)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_the_text_does_not_depend_on_what_the_controller_decides(
    demo: Daemon, controlled: Daemon, sampling: dict[str, Any]
) -> None:
    plain = answer(demo, {"mode": "off"}, **sampling)
    assert text(answer(controlled, {"mode": "auto"}, **sampling)) == text(plain)
    assert text(answer(controlled, {"mode": "draft"}, **sampling)) == text(plain)
