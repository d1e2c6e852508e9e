from __future__ import annotations

from pathlib import Path

import pytest

from homespec.engine.draft_params import draft_params
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.frames import EngineSettings
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("target", "asked", "expected"),
    [("bf16", None, "f16"), ("f16", None, "f16"), ("q8_0", None, "q8_0"), ("bf16", "q8_0", "q8_0")],
)
def test_keys_that_a_strict_target_needs_are_not_copied_to_a_drafter_whose_window_slides(
    models: Models, target: str, asked: str | None, expected: str
) -> None:
    model = Model(Path(models.markov))
    try:
        settings = EngineSettings(str(models.markov), "m", draft_kv_type=asked)
        assert draft_params(settings, model, ContextParams(512, 1, 1, kv_type=target)).kv_type == expected
    finally:
        model.close()
