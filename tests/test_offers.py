"""The models that a request may name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from homespec.config import Settings
from homespec.errors import ConfigError, ModelCorrupt
from homespec.offers import Offers
from tests.kits.models import Models


@pytest.fixture
def store(models: Models, tmp_path: Path) -> Path:
    """Holds `stored`, and a link to `letters` under another name."""
    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copy(models.letters, folder / "stored.gguf")
    (folder / "link.gguf").symlink_to(models.letters)
    return folder


def settings(models: Models, store: Path, tables: Mapping[str, Any] | None = None, **values: Any) -> Settings:
    given = {"model": str(models.letters), "models_dir": store, "models": tables or {}}
    return Settings(**{**given, **values})


def offers(*arguments: Any, **values: Any) -> Offers:
    return Offers(settings(*arguments, **values), lambda _: None)


def ids(made: Offers) -> list[str]:
    return [offer.id for offer in made.all()]


def test_the_default_comes_first_and_each_file_once(models: Models, store: Path) -> None:
    made = offers(models, store, {"more": {"path": str(models.random)}})
    assert ids(made) == ["letters", "more", "stored"]
    assert ids(offers(models, store, offer="off")) == ["letters"]


def test_a_model_is_found_by_its_name_and_by_its_file(models: Models, store: Path) -> None:
    made = offers(models, store, {"more": {"path": str(models.random)}}, model_id="main")
    found = {name: made.find(name) for name in ("main", "letters", "letters.gguf", "more", "random", "stored")}
    assert [offer and offer.id for offer in found.values()] == ["main", "main", "main", "more", "more", "stored"]
    assert made.find("none") is None


def test_without_a_model_the_first_of_the_table_is_served(models: Models, store: Path) -> None:
    tables = {"one": {"path": str(models.random), "ctx": 512}, "two": {"path": str(models.letters)}}
    assert offers(models, store, tables, model=None).default.id == "one"
    named = offers(models, store, tables, model="two")
    assert [offer.id for offer in named.known] == ["two", "one"]
    assert offers(models, store, tables, model=None).default.settings.ctx == 512


def test_two_models_of_one_name_are_refused(models: Models, store: Path) -> None:
    with pytest.raises(ConfigError, match=r"models\.letters is called like"):
        offers(models, store, {"letters": {"path": str(models.random)}})


def test_a_table_takes_over_what_is_not_of_one_model_alone(models: Models, store: Path) -> None:
    tables = {"more": {"path": str(models.random), "slots": 2}}
    values = {"draft": str(models.letters), "chat_template": "chatml", "ctx": 512}
    more = offers(models, store, tables, **values).known[1].settings
    assert (more.slots, more.ctx, more.draft, more.chat_template) == (2, 512, "auto", "auto")
    off = offers(models, store, tables, draft="off").known[1].settings
    assert off.draft == "off"


def test_a_broken_file_is_told_when_it_is_asked_for(models: Models, store: Path) -> None:
    broken = store / "broken.gguf"
    broken.write_text("not a model")
    made = offers(models, store, {"broken": {"path": str(broken)}})
    with pytest.raises(ModelCorrupt):
        made.plan(made.known[1])
    with pytest.raises(ModelCorrupt):
        offers(models, store, model=str(broken))


def test_what_is_learned_of_a_model_outlives_a_configuration_that_leaves_it_alone(models: Models, store: Path) -> None:
    tables = {"more": {"path": str(models.random)}}
    before = offers(models, store, tables)
    stored = before.find("stored")
    assert stored is not None
    plans = [before.plan(offer) for offer in (*before.known, stored)]
    after = offers(models, store, {"more": {"path": str(models.random), "ctx": 512}})
    after.take_over(before)
    kept = [after.plan(offer) is plan for offer, plan in zip(after.all(), plans, strict=True)]
    assert kept == [True, False, True]


def test_plans_are_taken_over_while_requests_have_others_made(models: Models, store: Path) -> None:
    tables = {"more": {"path": str(models.random)}, "third": {"path": str(models.markov)}}
    before = offers(models, store, tables)
    _, more, third = before.known
    before.plan(more)
    is_taken_over = False

    def fit_meanwhile(_: Settings) -> None:
        if is_taken_over:
            before.plan(third)

    after = Offers(settings(models, store, tables), fit_meanwhile)
    is_taken_over = True
    after.take_over(before)
    assert after.plan_made(more) is before.plan_made(more)
    assert before.plan_made(third)
