"""Questions to the survey child whose answers are facts, with every way in which they can fail."""

from __future__ import annotations

from homespec import errors
from homespec.errors import EngineError, ModelError
from homespec.footprint import (
    CheckPair,
    Described,
    DescribeModel,
    Device,
    Devices,
    Failed,
    ListDevices,
    MeasureSpeeds,
    ModelFacts,
    PairChecked,
    Speeds,
)
from homespec.headroom.survey import Survey


async def describe(survey: Survey, path: str, target_path: str | None = None) -> ModelFacts:
    """What the header of a model says; see DescribeModel. Raises ModelError, EngineError when nobody could read it."""
    match await survey.ask(DescribeModel(path, target_path)):
        case Described(facts):
            return facts
        case Failed(kind, message):
            error_class = getattr(errors, kind, ModelError)
            raise error_class(message)
        case answer:
            raise EngineError(f"{type(answer).__name__} in answer to DescribeModel")


async def list_devices(survey: Survey) -> tuple[Device, ...]:
    """Devices that can hold layers; none when they cannot be listed."""
    answer = await survey.ask(ListDevices())
    return answer.devices if isinstance(answer, Devices) else ()


async def check_pair(survey: Survey, target_path: str, draft_path: str) -> PairChecked:
    """Whether a drafter can draft for a target, memory aside. Raises EngineError when the child dies of it."""
    match await survey.ask(CheckPair(target_path, draft_path)):
        case PairChecked() as checked:
            return checked
        case Failed(_, message):
            return PairChecked("unreadable", (message,))
        case answer:
            raise EngineError(f"{type(answer).__name__} in answer to CheckPair")


async def measure_speeds(survey: Survey, threads: int) -> Speeds:
    """How fast this box reads memory and multiplies. Raises EngineError when nobody could measure it."""
    answer = await survey.ask(MeasureSpeeds(threads))
    if isinstance(answer, Speeds):
        return answer
    raise EngineError(f"{type(answer).__name__} in answer to MeasureSpeeds")
