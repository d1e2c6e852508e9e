"""A box whose free memory is what the test says, and plans for it by the real child."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from homespec.frames import EngineSettings
from homespec.headroom import planner
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import Plan, make_plan
from homespec.headroom.readings import HostMemory
from homespec.headroom.survey import Survey
from homespec.units import GIB, MIB
from tests.kits.gguf_kit import NextToken, TinyModel
from tests.kits.heads_kit import dense_markov, dflash_lag, dspark_markov, eagle3_markov, mtp_alone, mtp_markov
from tests.kits.models import Models

MARKS = WantedMarks(reserve_bytes=100 * MIB)


def give(patch: pytest.MonkeyPatch, available_bytes: int) -> None:
    patch.setattr(planner, "host_memory", lambda: HostMemory(16 * GIB, available_bytes))


def settings(path: Path, **fields: object) -> EngineSettings:
    return EngineSettings(model_path=str(path), model_id="m", **fields)  # type: ignore[arg-type]


async def plan(survey: Survey, settings: EngineSettings, *drafts: Path, check_pairs: bool = False) -> Plan:
    paths = [str(path) for path in drafts]
    return await make_plan(settings, paths, MARKS, survey, check_pairs=check_pairs)


def head_pair(models: Models, kind: str) -> tuple[Path, Path]:
    """A target and a drafter that reads its states."""
    if kind.startswith("mtp"):
        target = models.write("mtp-0.0-target", mtp_markov(models.chain))
        return target, target if kind == "mtp" else models.write("mtp-alone", mtp_alone(models.chain))
    makers: dict[str, Callable[[NextToken], TinyModel]] = {
        "eagle3": eagle3_markov,
        "dflash": dflash_lag,
        "dspark": dspark_markov,
    }
    head = models.write(f"head-{kind}", makers[kind](models.chain))
    return models.write("dense-markov", dense_markov(models.chain)), head


DIES = """
import sys, os
from homespec.engine import surveyor
honest = surveyor.answer
def answer(question):
    if type(question).__name__ in ("SizeTarget", "SizeDrafter"):
        print("GGML_ASSERT failed", file=sys.stderr, flush=True)
        os.abort()
    return honest(question)
surveyor.answer = answer
surveyor.main()
"""
