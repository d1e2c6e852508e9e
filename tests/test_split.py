"""Names of models in several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.split import model_name, parts


def test_any_part_stands_for_all() -> None:
    assert parts(Path("/a/b-00002-of-00003.gguf")) == tuple(Path(f"/a/b-0000{at}-of-00003.gguf") for at in (1, 2, 3))
    assert model_name(Path("/a/b-00002-of-00003.gguf")) == "b"


@pytest.mark.parametrize("name", ["b", "b-00001-of-00000", "b-00000-of-00003", "b-00004-of-00003", "b-1-of-3"])
def test_what_is_no_place_in_a_split_is_its_only_part(name: str) -> None:
    path = Path(f"/a/{name}.gguf")
    assert parts(path) == (path,)
    assert model_name(path) == name
