"""A drafter that the gate refused, asked about again beside the engine that runs: the same search, in what is free now.

The target is a part of the question and not of the answer: what comes back is a way to load the drafter, or none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from homespec.errors import EngineError, HomespecError
from homespec.footprint import Footprint
from homespec.frames import Admit, EngineSettings
from homespec.headroom.admission import DraftVerdict
from homespec.headroom.answers import Answers
from homespec.headroom.choice import Choice, TargetPlan
from homespec.headroom.estimate import Estimator
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import admit_drafters, read_budget
from homespec.headroom.probe import mapped_bytes
from homespec.headroom.questions import describe, list_devices
from homespec.headroom.survey import Survey


@dataclass(frozen=True, slots=True)
class SecondLook:
    """What the gate says this time."""

    way: Admit | None
    """How to load the drafter; None: it stays out."""
    reason: str
    sizes: tuple[Footprint, ...] = ()
    """What each way to load it takes; empty where memory is not what keeps it out."""
    is_measured: bool = True
    """False: nobody could be asked, on a box that is too busy for instance; another try may do better."""


Reconsider = Callable[[EngineSettings, int], Awaitable[SecondLook]]
"""Of the settings that an engine runs with, and its process id."""


async def reconsider(
    settings: EngineSettings, pid: int, *, marks: WantedMarks, answers: Answers | None = None
) -> SecondLook:
    """Whether the refused drafter of an engine that runs fits by now, with the high marks left free; `answers` as in
    Survey.
    """
    assert settings.draft_path is not None
    try:
        async with Survey(answers) as survey:
            return _second_look(await _ask(survey, settings, settings.draft_path, pid, marks))
    except EngineError as error:
        return SecondLook(None, f"it cannot be measured: {error}", is_measured=False)
    except HomespecError as error:
        return SecondLook(None, f"it cannot be measured: {error}")


async def _ask(survey: Survey, settings: EngineSettings, draft: str, pid: int, marks: WantedMarks) -> DraftVerdict:
    facts = await describe(survey, settings.model_path)
    devices = await list_devices(survey)
    estimator = Estimator(survey, settings, facts, devices[0].name if devices else None, capacity_bytes=None)
    choice = Choice(settings.n_ctx, settings.kv_type, settings.n_gpu_layers, settings.slots)
    target = TargetPlan(choice, await estimator.target(choice))
    now = read_budget(devices, marks, mapped_bytes=mapped_bytes(pid) or 0, to_return=True)
    admission = await admit_drafters(estimator, [draft], target, now.before(target.footprint), check_pairs=False)
    return admission.verdicts[0]


def _second_look(verdict: DraftVerdict) -> SecondLook:
    choice = verdict.choice
    if verdict.is_in_target:
        return SecondLook(None, "it is loaded together with the target; restart homespec to try again")
    if not verdict.is_admitted or choice is None:
        return SecondLook(None, verdict.reason, verdict.sizes)
    return SecondLook(Admit(choice.n_ctx, choice.kv_type, choice.n_gpu_layers), verdict.reason, verdict.sizes)
