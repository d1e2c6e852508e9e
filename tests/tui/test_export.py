"""What is given to others is a snapshot still, and tells nothing about the disk it came from."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import msgspec
import pytest

from homespec.status import DrafterStatus, DraftState, Event, Status
from homespec.tui.export import file_name, self_contained, snapshot_json, without_paths
from tests.client.daemon_double import DaemonDouble

from .screen import top
from .snapshots import DRAFTERS, NOW_UNIX, SPECULATION, loading, speculating

DRAFT = "/home/ann/My Models/draft (q2).gguf"


def private() -> Status:
    status = speculating()
    assert status.model is not None
    draft = DrafterStatus("draft", DraftState.LOADING, f"loading {DRAFT}", DRAFT)
    return replace(
        status,
        model=replace(status.model, path="/home/ann/models/target.gguf"),
        speculation=replace(SPECULATION, drafters=(draft, *DRAFTERS[1:])),
        events=(
            Event(NOW_UNIX, "drafter", f"draft loading: loading {DRAFT}"),
            Event(NOW_UNIX, "model", "'/home/ann/models/other.gguf' does not exist; ~/x/y.gguf neither"),
        ),
    )


def test_no_path_is_left_and_the_names_of_files_are() -> None:
    text = snapshot_json(private()).decode()
    assert "ann" not in text
    assert "Models" not in text
    assert '"target.gguf"' in text
    assert "loading draft (q2).gguf" in text
    assert "'other.gguf' does not exist; y.gguf neither" in text


@pytest.mark.parametrize("status", [speculating(), private(), loading()])
def test_everything_else_is_as_it_was(status: Status) -> None:
    exported = msgspec.json.decode(snapshot_json(status), type=Status)
    shown = replace(exported, model=status.model, speculation=status.speculation, events=status.events)
    assert shown == status


@pytest.mark.parametrize("text", ["40/48 accepted", "http://127.0.0.1:8642/v1/models", "GET /status", "a / b"])
def test_what_is_no_path_stays(text: str) -> None:
    status = replace(speculating(), detail=text)
    assert without_paths(status)["detail"] == text


def test_a_file_is_named_by_the_time_of_its_snapshot() -> None:
    name = file_name(speculating(), "json")
    assert name.startswith("homespec-2025")
    assert name.endswith(".json")
    assert len(file_name(None, "svg")) == len(name) - 1


async def test_a_picture_fetches_nothing(daemon: DaemonDouble) -> None:
    app = top(daemon.url)
    async with app.run_test():
        picture = app.export_screenshot()
    shown = self_contained(picture)
    assert 'url("https' in picture
    assert 'url("http' not in shown
    assert shown.count("@font-face") == picture.count("@font-face")
    assert ElementTree.fromstring(shown).tag.endswith("svg")
