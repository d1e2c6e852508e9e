"""The commands about models, as people call them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from homespec.errors import ExitCode
from tests.daemons import FinishedCommand, run_command
from tests.kits.hub_server import hub_server
from tests.kits.models import Models

pytestmark = pytest.mark.process


def run(home: Path, *arguments: str, **environment: str) -> FinishedCommand:
    folders = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}
    return run_command(home, *arguments, environment={**folders, **environment})


def test_a_model_from_the_hub_to_the_bin(home: Path, models: Models) -> None:
    with hub_server() as hub:
        hub.repositories["me/letters-GGUF"] = {"letters-F16.gguf": models.letters}
        # An address for everyone, as in the container, concerns who listens.
        pulled = run(home, "pull", "me/letters-GGUF", HF_ENDPOINT=hub.url, HOMESPEC_HOST="0.0.0.0")
        missing = run(home, "pull", "me/letters-GGUF:Q2_K", HF_ENDPOINT=hub.url)
    path = home / "data/homespec/models/me/letters-GGUF/letters-F16.gguf"
    assert (pulled.code, pulled.stdout) == (ExitCode.OK, f"{path}\n")
    assert "homespec serve 'letters-F16'" in pulled.stderr
    assert "drafter:" in pulled.stderr
    assert missing.code == ExitCode.FAILURE
    assert missing.complaint.startswith("homespec: me/letters-GGUF has nothing called 'Q2_K'; name one of: letters-F16")

    [record] = json.loads(run(home, "models", "--json").stdout)
    assert (record["name"], record["path"], record["architecture"]) == ("letters-F16", str(path), "llama")
    assert run(home, "rm", "letters-F16").stdout == f"{path}\n"
    assert "no models in" in run(home, "models").stderr


def test_offline_is_said_in_one_line(home: Path) -> None:
    finished = run(home, "pull", "me/x", HF_HUB_OFFLINE="1")
    assert finished.code == ExitCode.FAILURE
    assert "cannot be reached" in finished.complaint
    assert "by hand" in finished.complaint


def test_a_table_for_people(home: Path, models: Models) -> None:
    folder = home / "data/homespec/models"
    folder.mkdir(parents=True)
    shutil.copy(models.letters, folder / "letters.gguf")
    head, line = run(home, "models").stdout.splitlines()
    assert head.split()[:4] == ["NAME", "ARCHITECTURE", "QUANT", "CONTEXT"]
    assert line.split()[:4] == ["letters", "llama", "F16", "1024"]
