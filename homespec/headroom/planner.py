"""From settings to a plan: read the memory, let the gate search, admit a drafter. `serve` and `plan` both ask here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from homespec import errors
from homespec.errors import DoesNotFit, EngineError, GpuMissing, ModelError
from homespec.footprint import (
    HOST,
    CheckPair,
    Described,
    DescribeModel,
    Device,
    Devices,
    Failed,
    Fitted,
    ListDevices,
    ModelFacts,
    PairChecked,
)
from homespec.frames import EngineSettings
from homespec.headroom.admission import Admission, Candidate, admit
from homespec.headroom.budget import Budget, DeviceBudget
from homespec.headroom.cgroup import ControlGroups
from homespec.headroom.choice import Asked, Refusal, TargetPlan
from homespec.headroom.estimate import Estimator, drive, with_draft, with_target
from homespec.headroom.gate import plan_target
from homespec.headroom.marks import WantedMarks
from homespec.headroom.pools import HostReading, pools
from homespec.headroom.probe import host_memory
from homespec.headroom.survey import Survey
from homespec.units import format_bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes where, and why."""

    settings: EngineSettings
    """As the engine should be started."""
    asked: Asked
    facts: ModelFacts
    devices: tuple[Device, ...]
    budget: Budget
    target: TargetPlan | Refusal
    admission: Admission | None
    """None when the target is refused."""

    def events(self) -> Iterator[str]:
        """What is worth telling of a plan that fits."""
        assert isinstance(self.target, TargetPlan)
        footprint = self.target.footprint
        left = {name: size for name, size in self.budget.headroom_after(footprint).items() if size is not None}
        room = ", ".join(f"{format_bytes(size)} on {name}" for name, size in left.items())
        kind = "measured" if footprint.measured else f"computed, {footprint.note}"
        yield f"fits: {format_bytes(footprint.total_bytes)} ({kind}), which leaves {room or 'an unknown rest'}"
        if self.asked.n_ctx is not None and footprint.n_ctx != self.asked.n_ctx:
            yield f"context: {self.asked.n_ctx} tokens as asked; llama.cpp allocates {footprint.n_ctx}, in steps of 256"
        yield from self.target.changes
        for verdict in self.admission.verdicts if self.admission else ():
            if verdict.path is not None:
                yield f"{verdict.path} {verdict.reason}"


async def make_plan(
    settings: EngineSettings, drafts: Sequence[str], marks: WantedMarks, survey: Survey, *, check_pairs: bool
) -> Plan:
    """Plan the target, then its drafters, best candidate first in `drafts`.

    Raises ModelError when the target's file cannot be read, ConfigError for a reserve that leaves nothing, EngineError
    when the child that measures does not even read a header.
    """
    facts = await describe(survey, settings.model_path)
    devices = await list_devices(survey)
    budget = read_budget(devices, marks)
    asked = _asked(settings, facts, devices)
    estimator = Estimator(
        survey, settings, facts, devices[0].name if devices else None, capacity_bytes=budget.capacity_bytes
    )
    target = await drive(plan_target(asked, budget), estimator.target)
    if isinstance(target, Refusal):
        return Plan(settings, asked, facts, devices, budget, target, None)
    settings = with_target(settings, target.choice)
    candidates = [Candidate(path, await _unusable(survey, settings, path, check_pairs)) for path in drafts]
    search = admit(
        candidates,
        target,
        budget,
        max_draft_tokens=settings.max_draft_tokens,
        can_quantize_kv=asked.can_quantize_kv,
    )
    admission = await drive(search, lambda way: estimator.drafter(way, target.choice))
    return Plan(_with_drafter(settings, admission), asked, facts, devices, budget, target, admission)


async def fit(settings: EngineSettings, marks: WantedMarks) -> Fitted:
    """The settings as they fit into this box now.

    Raises DoesNotFit with the numbers and the nearest plan that does, GpuMissing when the GPU asked for is not there.
    A box that cannot be measured is no reason not to serve: then the settings stay as they are, and the event says why.
    """
    drafts = [settings.draft_path] if settings.draft_path and "draft" not in settings.quarantined else []
    async with Survey() as survey:
        try:
            plan = await make_plan(settings, drafts, marks, survey, check_pairs=False)
        except EngineError as error:
            return Fitted(settings, (f"not measured whether it fits: {error}",), None)
    # Before the sizes: without a GPU that is on its way they say nothing.
    GpuMissing.check(settings.n_gpu_layers, plan.devices)
    if isinstance(plan.target, Refusal):
        raise DoesNotFit(f"{settings.model_path}: {plan.target.explain(plan.asked)}")
    return Fitted(plan.settings, tuple(plan.events()), plan.target.footprint)


async def describe(survey: Survey, path: str) -> ModelFacts:
    """What the header of a model says. Raises ModelError, or EngineError when nobody could read it."""
    match await survey.ask(DescribeModel(path)):
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


def read_budget(devices: Sequence[Device], marks: WantedMarks) -> Budget:
    """The memory that there is now, control groups included."""
    [host] = pools(HostReading(host_memory(), ControlGroups(Path("/")).tightest(), mapped_bytes=0), (), lambda _: None)
    return Budget(
        DeviceBudget(HOST, host.total_bytes, host.free_bytes, marks.reserve(host.total_bytes)),
        tuple(_device_budget(device, marks) for device in devices),
    )


def _device_budget(device: Device, marks: WantedMarks) -> DeviceBudget:
    reserve = marks.reserve(device.total_bytes)
    return DeviceBudget(device.name, device.total_bytes, device.free_bytes, reserve, is_unified=device.is_unified)


def _asked(settings: EngineSettings, facts: ModelFacts, devices: Sequence[Device]) -> Asked:
    return Asked(
        n_ctx=settings.n_ctx,
        kv_type=None if settings.kv_type == "auto" else settings.kv_type,
        n_gpu_layers=None if settings.n_gpu_layers < 0 else settings.n_gpu_layers,
        slots=settings.slots,
        n_layer=facts.n_layer,
        has_device=bool(devices),
        can_quantize_kv=settings.flash_attention != "off",
    )


async def _unusable(survey: Survey, settings: EngineSettings, path: str, check_pairs: bool) -> str | None:
    if not check_pairs:
        return None  # the engine checks the pair when it loads the drafter
    try:
        checked = await check_pair(survey, settings.model_path, path)
    except EngineError as error:
        return f"cannot be checked: {error}"
    return "; ".join(checked.failures) or None


def _with_drafter(settings: EngineSettings, admission: Admission) -> EngineSettings:
    """The admitted drafter as it is to be loaded, or the configured one kept out with its reason."""
    admitted = admission.admitted
    if admitted is not None and admitted.choice is not None:
        return with_draft(settings, admitted.choice)
    reasons = {verdict.path: verdict.reason for verdict in admission.verdicts}
    if settings.draft_path is not None and settings.draft_path in reasons:
        return msgspec.structs.replace(settings, refused={"draft": reasons[settings.draft_path]})
    return settings
