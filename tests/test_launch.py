"""From the user's settings to the engine's: which draft files it is told of."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.config import Settings
from homespec.frames import EngineSettings
from homespec.launch import engine_settings
from homespec.store.companions import SOURCE_KEY, copy_path
from tests.kits.gguf_kit import markov_llama
from tests.kits.models import Models


@pytest.fixture
def model(models: Models, tmp_path: Path) -> Path:
    """With a copy beside it."""
    path = Path(shutil.copy(models.markov, tmp_path / "model.gguf"))
    shutil.copy(models.markov_drafter, copy_path(path, "Q2_K"))
    return path


def told(model: Path, **settings: object) -> EngineSettings:
    return engine_settings(Settings(model=str(model), **settings), model, "m")  # type: ignore[arg-type]


def test_auto_may_take_the_copy_that_lies_with_the_model(model: Path) -> None:
    settings = told(model)
    assert settings.draft_candidates == (str(copy_path(model, "Q2_K")),)
    assert settings.draft_path is None  # what fits is decided elsewhere


def test_but_not_one_that_was_made_of_another_file(model: Path, models: Models) -> None:
    tiny = replace(markov_llama(models.chain), metadata={SOURCE_KEY: "of another"})
    other = tiny.write(copy_path(model, "Q4_0"))
    settings = told(model)
    assert set(settings.draft_candidates) == {str(copy_path(model, "Q2_K")), str(other)}
    assert list(settings.outdated_candidates) == [str(other)]


@pytest.mark.parametrize("settings", [{"draft": "off"}, {"controller": "off"}, {"fit": "off"}])
def test_but_only_where_it_is_weighed(model: Path, settings: dict[str, str]) -> None:
    assert told(model, **settings).draft_candidates == ()


def test_a_file_that_is_named_is_the_only_one(model: Path, models: Models) -> None:
    settings = told(model, draft=str(models.markov_drafter_30))
    assert (settings.draft_path, settings.draft_candidates) == (str(models.markov_drafter_30), ())


def test_the_home_of_nobody_is_a_path_that_leads_nowhere(model: Path) -> None:
    settings = told(model, past_outputs_mib=1, past_outputs_file="~no-such-user/past", draft="~no-such-user/d.gguf")
    assert settings.past_outputs_path == str(Path("~no-such-user/past").absolute())
    assert "does not exist" in settings.quarantined["draft"]
