"""What a new configuration changes, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.config import Settings, load
from homespec.errors import ConfigError
from homespec.service.changes import changed_keys, describe, following


@pytest.fixture(autouse=True)
def _no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_a_change_is_named_with_both_values() -> None:
    old, new = load({}), load({"slots": 2, "max_queue": 5})
    assert changed_keys(old, new) == ("slots", "max_queue")
    text = describe(old, new, engine_restarts=True)
    assert "slots 4 → 2" in text
    assert "starts anew" in text
    assert "nothing changed" in describe(old, old, engine_restarts=False)
    assert describe(old, old, engine_restarts=True).endswith("draft files lie with the model; the engine starts anew")


def test_a_key_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_API_KEY", "sk-old")
    old = load({})
    monkeypatch.setenv("HOMESPEC_API_KEY", "sk-new")
    text = describe(old, load({}), engine_restarts=False)
    assert "api_key" in text
    assert "sk-" not in text


def test_the_sockets_stay_and_are_said_to_need_a_restart() -> None:
    old, new = load({"port": 1}), load({"port": 2, "slots": 2})
    followed = following(old, new)
    assert (followed.port, followed.slots) == (1, 2)
    assert "port 1 → 2 (takes a restart of the service)" in describe(old, new, engine_restarts=True)


def test_open_sockets_do_not_lose_their_key(tmp_path: Path) -> None:
    """Loopback without a key is fine for a start, but these sockets listen to everyone."""
    keys = tmp_path / "keys"
    keys.write_text("sk-1")
    old = load({"host": "0.0.0.0", "api_key_file": keys})
    with pytest.raises(ConfigError, match="no API key is set"):
        following(old, Settings())
