"""Whether drafters can draft for a target, memory aside: every failed check of every candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import EngineError, HomespecError
from homespec.headroom.questions import check_pair, describe
from homespec.headroom.survey import Survey
from homespec.store.model_file import check_file


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """One candidate."""

    path: str
    kind: str
    """What kind of drafter the file is; `unreadable` when nobody can tell."""
    failures: tuple[str, ...]

    @property
    def is_usable(self) -> bool:
        return not self.failures


async def check_pairs(target: str, drafts: Sequence[str], models_dir: Path | None, survey: Survey) -> list[PairVerdict]:
    """A verdict per candidate, in their order; models_dir: as configured, for those that are named.

    Raises ModelError when the target itself cannot be read.
    """
    await describe(survey, target)
    return [await _verdict(target, draft, models_dir, survey) for draft in drafts]


async def _verdict(target: str, draft: str, models_dir: Path | None, survey: Survey) -> PairVerdict:
    try:
        path = str(check_file(draft, models_dir))
        checked = await check_pair(survey, target, path)
    except EngineError as error:
        return PairVerdict(draft, "unreadable", (f"llama.cpp cannot load it: {error}",))
    except HomespecError as error:
        return PairVerdict(draft, "unreadable", (str(error),))
    return PairVerdict(draft, checked.kind, checked.failures)
