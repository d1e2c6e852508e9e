"""Fetching from a hub, with the library that people use and a server of our own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from homespec.errors import HubError, ModelCorrupt
from homespec.store.hub import pull
from tests.kits import gguf_kit
from tests.kits.hub_server import Hub, hub_server
from tests.kits.models import Models
from tests.kits.splitting import split


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_server() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def fetch(spec: str) -> Path:
    return pull(spec, None, lambda line: None)


def test_a_model_is_fetched_once(hub: Hub, home: Path, models: Models) -> None:
    hub.repositories["me/letters-GGUF"] = {"letters-Q8_0.gguf": models.letters}
    path = fetch("me/letters-GGUF:q8_0")
    assert path == home / "data/homespec/models/me/letters-GGUF/letters-Q8_0.gguf"
    assert path.read_bytes() == models.letters.read_bytes()
    assert fetch("me/letters-GGUF") == path
    assert len(hub.ranges) == 1


def test_all_files_of_a_split(hub: Hub, home: Path) -> None:
    parts = split(gguf_kit.markov_llama(gguf_kit.permutation()), home, "tiny", 3)
    hub.repositories["me/tiny"] = {path.name: path for path in parts}
    first = fetch("me/tiny")
    assert first.name == parts[0].name
    assert len(list(first.parent.glob("*.gguf"))) == 3


def test_a_cut_connection_goes_on_where_it_was(hub: Hub, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["me/letters"] = {"letters.gguf": models.letters}
    hub.cuts = [100_000]
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 65536)
    path = fetch("me/letters")
    assert path.read_bytes() == models.letters.read_bytes()
    assert len(hub.ranges) == 2
    assert hub.ranges[1] == "bytes=65536-"


def test_what_arrives_must_be_what_was_promised(hub: Hub, home: Path, models: Models) -> None:
    hub.repositories["me/letters"] = {"letters.gguf": models.letters}
    hub.wrong_sha256 = "0" * 64
    with pytest.raises(ModelCorrupt, match="the hub promises 000000000000"):
        fetch("me/letters")
    assert not list((home / "data").rglob("*.gguf"))


def test_a_web_page_in_place_of_a_model(hub: Hub, home: Path) -> None:
    hub.repositories["me/page"] = {"page.gguf": gguf_kit.web_page(home / "page.gguf")}
    with pytest.raises(ModelCorrupt, match="web page"):
        fetch("me/page")


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_full_disk_is_noticed_before(hub: Hub, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["me/letters"] = {"letters.gguf": models.letters}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: _Usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(HubError, match=r"1000 B free.*models_dir"):
        fetch("me/letters")
    assert hub.ranges == []


def test_a_repository_that_is_not_there(hub: Hub) -> None:
    with pytest.raises(HubError, match=r"me/nothing is not on .*HF_TOKEN"):
        fetch("me/nothing")


def test_a_repository_that_asks_for_consent(hub: Hub) -> None:
    hub.gated = True
    with pytest.raises(HubError, match="asks for consent"):
        fetch("me/gated")


def test_no_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(HubError, match=r"cannot be reached \(Connection refused\).*by hand"):
        fetch("me/letters")


def test_a_folder_that_cannot_be_written(hub: Hub, home: Path, models: Models) -> None:
    hub.repositories["me/letters"] = {"letters.gguf": models.letters}
    (home / "data").touch()
    with pytest.raises(HubError, match="cannot be stored in"):
        fetch("me/letters")
