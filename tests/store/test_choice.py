"""Which files of a repository are meant."""

from __future__ import annotations

import pytest

from homespec.errors import HubError
from homespec.store.choice import PREFERRED, HubFile, choose, parse

FILES = tuple(
    HubFile(name)
    for name in (
        "README.md",
        "mmproj-m-f16.gguf",
        "m-Q4_K_M.gguf",
        "m-Q4_K_S.gguf",
        "m-q8_0.gguf",
        "BF16/m-BF16-00001-of-00002.gguf",
        "BF16/m-BF16-00002-of-00002.gguf",
        "Q6/m-Q6_K-00001-of-00002.gguf",
    )
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("a/b", ("a/b", None)),
        ("a/b:Q4_K_M", ("a/b", "Q4_K_M")),
        ("https://huggingface.co/a/b-GGUF/", ("a/b-GGUF", None)),
        ("hf.co/a/b:x.gguf", ("a/b", "x.gguf")),
    ],
)
def test_a_spec(spec: str, expected: tuple[str, str | None]) -> None:
    assert parse(spec) == expected


@pytest.mark.parametrize("spec", ["", "a", "a/b/c", "../..:x", "a b/c", ":q", "/etc/passwd"])
def test_no_spec(spec: str) -> None:
    with pytest.raises(HubError, match="OWNER/NAME"):
        parse(spec)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, ["m-Q4_K_M.gguf"]),
        ("q4_k_s", ["m-Q4_K_S.gguf"]),
        ("Q8_0", ["m-q8_0.gguf"]),
        ("m-q8_0.gguf", ["m-q8_0.gguf"]),
        ("BF16", ["BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"]),
        ("m-BF16-00002-of-00002.gguf", ["BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"]),
    ],
)
def test_a_choice(wanted: str | None, expected: list[str]) -> None:
    assert [file.path for file in choose("a/b", FILES, wanted)] == expected


@pytest.mark.parametrize("wanted", ["Q4_K", "Q6_K", "Q2_K", "mmproj-m-f16.gguf", "README.md"])
def test_what_is_not_there_is_answered_with_what_is(wanted: str) -> None:
    """Half a word is none, and half a split is no model."""
    with pytest.raises(HubError, match=r"nothing called .*m-Q4_K_M"):
        choose("a/b", FILES, wanted)


def test_a_word_that_several_have() -> None:
    files = (HubFile("x/m-Q8_0.gguf"), HubFile("y/m-Q8_0.gguf"))
    with pytest.raises(HubError, match="2 models called 'Q8_0'"):
        choose("a/b", files, "Q8_0")


def test_the_only_model_needs_no_name() -> None:
    assert choose("a/b", (HubFile("odd.gguf"),), None) == (HubFile("odd.gguf"),)
    with pytest.raises(HubError, match=r"no \.gguf"):
        choose("a/b", (HubFile("model.safetensors"),), None)
    with pytest.raises(HubError, match="2 models"):
        choose("a/b", (HubFile("odd.gguf"), HubFile("even.gguf")), None)


@pytest.mark.parametrize("path", ["../up.gguf", "/etc/root.gguf", "a/../../up.gguf"])
def test_nothing_is_fetched_to_a_place_outside_the_repository(path: str) -> None:
    with pytest.raises(HubError, match=r"no \.gguf"):
        choose("a/b", (HubFile(path),), None)


def test_preferences_in_their_order() -> None:
    for index, quant in enumerate(PREFERRED):
        files = tuple(HubFile(f"m-{each}.gguf") for each in reversed(PREFERRED[index:]))
        assert choose("a/b", files, None)[0].path == f"m-{quant}.gguf"
