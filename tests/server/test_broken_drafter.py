"""A drafter that cannot be used costs the drafter, never the target, and everyone is told why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemons import eventually, running
from tests.kits import gguf_kit
from tests.kits.models import Models

pytestmark = pytest.mark.process

ASKED = {"mode": "draft", "spans": True}


def missing(_models: Models, folder: Path) -> tuple[Path, str]:
    return folder / "nope.gguf", "nope.gguf does not exist"


def truncated(models: Models, folder: Path) -> tuple[Path, str]:
    return gguf_kit.truncated(models.other_random, folder / "cut.gguf", 5_000), "broken GGUF header"


def mismatched(_models: Models, folder: Path) -> tuple[Path, str]:
    vocabulary = gguf_kit.byte_vocabulary().with_swapped(65, 66)
    return gguf_kit.random_llama(vocabulary, seed=2).write(folder / "swapped.gguf"), "token 65 differs"


def not_text(models: Models, folder: Path) -> tuple[Path, str]:
    path = folder / "\udcff.gguf"
    path.symlink_to(models.letters)
    return path, "not valid UTF-8"


@pytest.mark.parametrize("make", [missing, truncated, not_text, mismatched])
def test_the_target_serves_and_the_reason_is_everywhere(
    models: Models, tmp_path: Path, make: Callable[[Models, Path], tuple[Path, str]]
) -> None:
    path, reason = make(models, tmp_path)
    with running(tmp_path, str(models.letters), "--draft", str(path)) as daemon:
        assert daemon.complete("a", 5)["choices"][0]["text"] == "bcdef"
        eventually(lambda: reason in daemon.health().json()["drafters"]["draft"]["reason"], "the drafter is given up")

        health = daemon.health()
        assert health.status_code == 200
        assert health.json()["drafters"]["draft"]["state"] == "off"
        drafters = {each["name"]: each for each in daemon.status()["speculation"]["drafters"]}
        assert drafters["draft"]["state"] == "off"
        assert reason in drafters["draft"]["reason"]
        assert drafters["ngram"]["state"] == "ready"
        report = daemon.complete("a", 5, speculative={"mode": "draft"})["speculative"]
        assert report["state"] == "off"
        assert reason in report["reason"]
        lines = [line for line in daemon.log().splitlines() if reason in line and "off" in line]
        assert len(lines) == 1
        assert "Traceback" not in daemon.log()
        assert daemon.restarts() == 0
        assert 'homespec_drafter_ready{drafter="draft"} 0.0' in daemon.metrics()


def test_naming_the_drafter_tries_again(models: Models, tmp_path: Path) -> None:
    """The file may be there by now."""
    path = tmp_path / "late.gguf"
    with running(tmp_path, str(models.letters), "--draft", str(path)) as daemon:
        eventually(lambda: "late.gguf" in daemon.health().json()["drafters"]["draft"]["reason"], "it is not there")
        path.symlink_to(models.letters)
        daemon.post("/admin/drafter", {"mode": "draft"})
        eventually(lambda: daemon.health().json()["drafters"]["draft"]["state"] == "ready", "it is loaded")
        report = daemon.complete("a", 16, speculative={"mode": "draft"})["speculative"]
        assert report["accepted"] == report["drafted"] > 0


def test_reloading_the_drafter_tries_again(models: Models, tmp_path: Path) -> None:
    path = tmp_path / "late.gguf"
    with running(tmp_path, str(models.letters), "--draft", str(path)) as daemon:
        eventually(lambda: "late.gguf" in daemon.health().json()["drafters"]["draft"]["reason"], "it is not there")
        path.symlink_to(models.letters)
        engine_pid = daemon.engine_pid

        def num_loaded() -> int:
            return sum(event["text"].startswith("draft ready: loaded") for event in daemon.status()["events"])

        for number in (1, 2):  # what is there already is loaded once more
            assert daemon.post("/admin/drafter", {"reload": True}).json() == {"mode": "auto", "reloading": True}
            eventually(lambda wanted=number: num_loaded() == wanted, "it is loaded")  # type: ignore[misc]
        assert daemon.engine_pid == engine_pid
        report = daemon.complete("a", 16, speculative={"mode": "draft"})["speculative"]
        assert report["accepted"] == report["drafted"] > 0
        with daemon.stream("/v1/completions", {"prompt": "a", "max_tokens": 16, "speculative": ASKED}) as stream:
            chunks = list(stream.events())
        told = [chunk["speculative"] for chunk in chunks[:-1]]
        texts = [chunk["choices"][0]["text"] for chunk in chunks[:-1]]
        drafted = [text[start:end] for text, chunk in zip(texts, told, strict=True) for start, end in chunk["spans"]]
        assert len("".join(drafted)) == told[-1]["accepted"] == chunks[-1]["speculative"]["accepted"] > 0


def test_without_a_draft_model_there_is_nothing_to_reload(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters)) as daemon:
        response = daemon.post("/admin/drafter", {"reload": True})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "no_draft_model"
        assert "--draft" in response.json()["error"]["message"]
