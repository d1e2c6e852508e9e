from __future__ import annotations

from pathlib import Path

import pytest

from homespec.derive.recipe import QUANTS, Recipe, parse
from homespec.errors import DeriveError


@pytest.mark.parametrize(
    ("quant", "layers", "recipe", "name"),
    [
        ("Q2_K", None, Recipe("Q2_K", None), "Q2_K"),
        ("q3_k", None, Recipe("Q3_K_M", None), "Q3_K_M"),
        (None, "0-2,7", Recipe(None, (0, 1, 2, 7)), "layers-0-2+7"),
        (None, " 5 , 1-2, 2", Recipe(None, (1, 2, 5)), "layers-1-2+5"),
        ("Q4_0", "0", Recipe("Q4_0", (0,)), "Q4_0-layers-0"),
    ],
)
def test_what_can_be_meant(quant: str | None, layers: str | None, recipe: Recipe, name: str) -> None:
    assert parse(quant, layers) == recipe
    assert recipe.name == name
    assert recipe.path_beside(Path("/m/a.Q8_0.gguf")) == Path(f"/m/a.Q8_0.draft-{name}.gguf")


@pytest.mark.parametrize(
    ("quant", "layers", "fragments"),
    [
        (None, None, ["--quant", "--keep-layers"]),
        ("Q9", None, ["'Q9'", *QUANTS]),
        ("", None, ["''", "Q2_K"]),
        (None, "", ["''", "0-9,28-29"]),
        (None, "1,,2", ["''"]),
        (None, "-1", ["'-1'"]),
        (None, "a-b", ["'a-b'"]),
        (None, "9-3", ["'9-3'", "before it begins"]),
        (None, "0-9999999999", ["'0-9999999999'"]),
    ],
)
def test_what_cannot(quant: str | None, layers: str | None, fragments: list[str]) -> None:
    with pytest.raises(DeriveError) as refusal:
        parse(quant, layers)
    for fragment in fragments:
        assert fragment in str(refusal.value)
