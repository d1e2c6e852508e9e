"""Models in other programs' stores."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.errors import ModelNotFound
from homespec.store.catalogue import Entry, as_records, as_table, drafters_for, entries
from homespec.store.finds import find_all
from homespec.store.model_file import find, resolve, served_name
from homespec.store.places import models_dir
from homespec.store.remove import remove
from homespec.store.suggestions import suggest
from tests.kits import gguf_kit
from tests.kits.models import Models


def put(source: Path, destination: Path) -> Path:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, destination)
    return destination


def ollama_model(folder: Path, place: str, blob: Path, *, size: int | None = None) -> Path:
    """A manifest with a model, a projector and a template, and the model's blob."""
    digest = f"sha256:{blob.stem}"
    stored = put(blob, folder / "blobs" / digest.replace(":", "-"))
    manifest = folder / "manifests" / place
    manifest.parent.mkdir(parents=True, exist_ok=True)
    kind = "application/vnd.ollama.image"
    layers = [
        {"mediaType": f"{kind}.projector", "digest": "sha256:projector", "size": 3},
        {"mediaType": f"{kind}.model", "digest": digest, "size": size or blob.stat().st_size},
        {"mediaType": f"{kind}.template", "digest": "sha256:template", "size": 3},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return stored


def test_an_empty_machine(home: Path) -> None:
    assert find_all() == ()
    assert models_dir() == home / "data/homespec/models"


def test_every_store_is_read(home: Path, models: Models) -> None:
    own = put(models.letters, home / "data/homespec/models/me/letters-GGUF/letters.gguf")
    studio = put(models.random, home / ".lmstudio/models/she/random.gguf")
    snapshot = home / ".cache/huggingface/hub/models--a--b/snapshots/123/x.gguf"
    blob = put(models.markov, home / ".cache/huggingface/hub/models--a--b/blobs/0123")
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(blob)
    default = ollama_model(home / ".ollama/models", "registry.ollama.ai/library/qwen3/4b", models.looping)
    foreign = ollama_model(home / ".ollama/models", "hf.co/she/her/latest", models.markov_drafter)

    assert {(each.name, each.store, each.path) for each in find_all()} == {
        ("letters", "homespec", own),
        ("random", "LM Studio", studio),
        ("x", "Hugging Face", snapshot),
        ("qwen3:4b", "Ollama", default),
        ("hf.co/she/her:latest", "Ollama", foreign),
    }
    assert resolve("qwen3:4b", demo=False) == default
    assert resolve("letters", demo=False) == own
    assert served_name("qwen3:4b", default) == "qwen3:4b"
    assert served_name(str(own), own) == "letters"


def test_a_path_comes_before_a_name(home: Path, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    put(models.letters, home / "data/homespec/models/letters.gguf")
    here = put(models.random, home / "letters")
    monkeypatch.chdir(home)
    assert find("letters") == here
    assert find("nothing") == home / "nothing"


def test_the_variables_of_the_other_programs_count(home: Path, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    put(models.letters, home / "hub/models--a--b/snapshots/1/letters.gguf")
    ollama_model(home / "llamas", "registry.ollama.ai/library/m/1", models.random)
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "llamas"))
    assert [each.name for each in find_all()] == ["letters", "m:1"]


@pytest.mark.parametrize(("variable", "value"), [("HF_HOME", "~"), ("HF_HOME", "$HOME"), ("HF_HUB_CACHE", "~/hub")])
def test_the_hub_cache_may_be_named_as_its_own_library_allows(
    home: Path, models: Models, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    put(models.letters, home / "hub/models--a--b/snapshots/1/letters.gguf")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv(variable, value)
    assert [each.name for each in find_all()] == ["letters"]


def test_links_that_go_in_circles_and_manifests_that_are_none(home: Path, models: Models) -> None:
    own = home / "data/homespec/models"
    put(models.letters, own / "a/letters.gguf")
    (own / "a/again").symlink_to(own)
    (own / "twice.gguf").symlink_to(own / "a/letters.gguf")
    manifests = home / ".ollama/models/manifests/h/l/m"
    manifests.mkdir(parents=True)
    for index, text in enumerate(("", "[]", "{}", '{"layers": [{}]}', '{"layers": []}', '{"layers": 3}')):
        (manifests / f"t{index}").write_text(text)
    assert len(find_all()) == 1


def test_what_is_known_and_what_matches(home: Path, models: Models) -> None:
    own = home / "data/homespec/models"
    put(models.random, own / "small.gguf")
    put(models.letters, own / "large.gguf")
    stranger = gguf_kit.random_llama(models.byte_vocabulary.with_swapped(7, 8), seed=1)
    put(models.write("stranger", stranger), own / "stranger.gguf")
    gguf_kit.web_page(own / "page.gguf")

    known = {entry.name: entry for entry in entries()}

    small, large = known["small"], known["large"]
    assert (large.architecture, large.n_ctx_train, large.quant) == ("llama", 1024, "F16")
    assert small.quant == "Q8_0"
    assert large.size_bytes == models.letters.stat().st_size
    assert drafters_for(large, known.values()) == (small,)
    assert drafters_for(small, known.values()) == ()
    assert "web page" in (known["page"].fault or "")
    table = as_table(tuple(known.values()))
    assert "web page" in table
    assert next(line for line in table.splitlines() if line.startswith("large")).endswith("small")
    [record] = [each for each in as_records(tuple(known.values())) if each["name"] == "large"]
    assert record["drafters"] == ["small"]
    json.dumps(record)


def test_a_blob_of_another_size_than_its_manifest_says(home: Path, models: Models) -> None:
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/m/1", models.letters, size=5)
    [entry] = entries()
    assert "Ollama expects 5" in (entry.fault or "")


def test_what_a_file_says_of_itself_stays_on_its_line(home: Path, models: Models) -> None:
    odd = replace(gguf_kit.markov_llama(gguf_kit.permutation()), architecture="a\x1b[2J\nb")
    odd.write(put(models.letters, home / "data/homespec/models/odd.gguf"))
    assert len(as_table(entries()).splitlines()) == 2
    assert "\x1b" not in as_table(entries())


def test_a_blob_that_is_gone(home: Path, models: Models) -> None:
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/m/1", models.letters).unlink()
    [entry] = entries()
    assert "does not exist" in (entry.fault or "")


def test_removing_takes_all_files_and_the_empty_folders(home: Path, models: Models) -> None:
    own = home / "data/homespec/models"
    path = put(models.letters, own / "me/letters-GGUF/letters.gguf")
    (path.parent / ".cache").mkdir()
    stays = put(models.random, own / "me/other/random.gguf")
    assert remove("letters") == (path,)
    assert not path.parent.exists()
    assert stays.exists()
    with pytest.raises(ModelNotFound, match="homespec models"):
        remove("letters")


def test_removing_two_models_of_one_name_that_share_a_folder(home: Path, models: Models) -> None:
    folder = home / "data/homespec/models/me/letters-GGUF"
    paths = {put(models.letters, folder / name) for name in ("letters.gguf", "letters-00001-of-00001.gguf")}
    assert {*remove("letters")} == paths
    assert not folder.exists()


def test_another_programs_model_is_not_removed(home: Path, models: Models) -> None:
    blob = ollama_model(home / ".ollama/models", "registry.ollama.ai/library/m/1", models.letters)
    with pytest.raises(ModelNotFound, match="belongs to Ollama"):
        remove("m:1")
    assert blob.exists()


def entry(name: str, size: int, **facts: object) -> Entry:
    values = {"architecture": "qwen3", "n_vocab": 151936, "vocabulary": "v", **facts}
    return Entry(name, "homespec", Path(f"/m/{name}.gguf"), size, **values)  # type: ignore[arg-type]


def test_suggestions() -> None:
    target, near, small = entry("target", 1000), entry("near", 900), entry("small", 100)
    assert "'small'" in suggest(target, (target, near, small))
    assert "homespec pull unsloth/Qwen3-0.6B-GGUF" in suggest(target, (target, near))
    assert "pull" not in suggest(entry("Qwen3-0.6B-Q8_0", 1000), ())
    assert "free drafters" in suggest(entry("target", 1000, architecture="odd"), ())


def test_a_name_that_counts_no_parts_hides_no_other_model(models: Models, tmp_path: Path) -> None:
    put(models.markov, tmp_path / "odd-00001-of-00000.gguf")
    put(models.markov_drafter, tmp_path / "plain.gguf")
    assert [found.name for found in find_all(tmp_path)] == ["odd-00001-of-00000", "plain"]
