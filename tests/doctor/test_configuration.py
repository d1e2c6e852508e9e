"""What doctor says about the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.doctor.check import Verdict
from homespec.doctor.configuration import examine_configuration


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOMESPEC_HOST", "HOMESPEC_API_KEY", "HOMESPEC_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config.toml"


def test_an_open_door_is_told_and_the_rest_is_looked_at_all_the_same(config: Path) -> None:
    config.write_text('host = "0.0.0.0"\nslots = 3\n')
    settings, check = examine_configuration(config)
    assert settings.slots == 3
    assert check.verdict is Verdict.FAIL
    assert "no API key is set" in check.text
    assert "HOMESPEC_API_KEY" in (check.remedy or "")


def test_a_configuration_that_cannot_be_read_leaves_the_defaults(config: Path) -> None:
    config.write_text("slots = 3\nslotz = 4\n")
    settings, check = examine_configuration(config)
    assert settings.slots == 4
    assert check.verdict is Verdict.FAIL
