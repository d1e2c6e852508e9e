"""From settings to a plan: read the memory, let the gate search, admit a drafter. `serve` and `plan` both ask here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from homespec.cgroup import ControlGroups
from homespec.errors import DoesNotFit, EngineError, GpuMissing, HomespecError
from homespec.footprint import (
    HOST,
    Device,
    Fitted,
    Footprint,
    ModelFacts,
)
from homespec.frames import EngineSettings
from homespec.headroom.admission import Admission, Candidate, admit, nothing_to_draft
from homespec.headroom.answers import Answers
from homespec.headroom.budget import Budget, DeviceBudget
from homespec.headroom.choice import Asked, Refusal, TargetPlan
from homespec.headroom.estimate import Estimator, drive, with_draft, with_target
from homespec.headroom.gate import plan_target
from homespec.headroom.marks import WantedMarks
from homespec.headroom.plan_summary import memory_plan
from homespec.headroom.pools import HostReading, pools
from homespec.headroom.probe import host_memory
from homespec.headroom.proposal import Proposal, propose
from homespec.headroom.questions import check_pair, describe, list_devices
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
    proposal: Proposal | None = None
    """A copy that is worth making, where there is no draft file at all."""

    @property
    def loaded(self) -> Footprint:
        """What the load of the target takes, with the weights of a drafter that lies in the same file."""
        admitted = self.admission.admitted if self.admission else None
        if admitted is None or admitted.footprint is None or not admitted.is_in_target:
            return self.target.footprint
        return self.target.footprint.with_weights_of(admitted.footprint)

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
        trained = self.facts.n_ctx_train
        if self.asked.n_ctx is not None and 0 < trained < self.asked.n_ctx:
            yield f"context: {self.asked.n_ctx} tokens as asked; the model was trained for {trained}, not for more"
        yield from self.target.changes
        for verdict in self.admission.verdicts if self.admission else ():
            if verdict.path is not None:
                yield f"{verdict.path} {verdict.reason}"
        if self.proposal is not None:
            yield self.proposal.text


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
    admission = await admit_drafters(estimator, drafts, target, budget, check_pairs=check_pairs)
    planned = with_target(settings, target.choice)
    proposal = None
    if not drafts and not facts.embeds_only and _may_draft(planned):
        proposal = propose(planned, facts, target, budget, estimator.device)
        if proposal is not None and await _unusable(survey, planned, planned.model_path, check_pairs=True):
            proposal = None  # no copy of it could draft
    return Plan(_with_drafter(planned, admission), asked, facts, devices, budget, target, admission, proposal)


async def admit_drafters(
    estimator: Estimator, drafts: Sequence[str], target: TargetPlan, budget: Budget, *, check_pairs: bool
) -> Admission:
    """The verdict on each of `drafts` beside a target whose plan is settled."""
    if estimator.facts.embeds_only:
        return nothing_to_draft(drafts)
    settings = estimator.settings
    search = admit(
        [await _candidate(estimator.survey, settings, path, check_pairs) for path in drafts],
        target,
        budget,
        max_draft_tokens=settings.max_draft_tokens,
        can_quantize_kv=_can_quantize_kv(settings),
    )
    return await drive(search, lambda way: estimator.drafter(way, target.choice))


async def fit(settings: EngineSettings, marks: WantedMarks, answers: Answers | None = None) -> Fitted:
    """The settings as they fit into this box now; `answers` as in Survey.

    Raises DoesNotFit with the numbers and the nearest plan that does, GpuMissing when the GPU asked for is not there.
    A box that cannot be measured is no reason not to serve: then the settings stay as they are, and the event says why.
    """
    is_named = settings.draft_path is not None
    named = [settings.draft_path] if settings.draft_path and "draft" not in settings.quarantined else []
    drafts = named if is_named else settings.draft_candidates
    async with Survey(answers) as survey:
        try:
            # A pair that was named is checked by the engine; of those found, one that cannot draft must not win.
            plan = await make_plan(settings, drafts, marks, survey, check_pairs=not is_named)
        except EngineError as error:
            return Fitted(settings, (f"not measured whether it fits: {error}",), None)
    # Before the sizes: without a GPU that is on its way they say nothing.
    GpuMissing.check(settings.n_gpu_layers, plan.devices, expected=settings.expects_gpu)
    if isinstance(plan.target, Refusal):
        raise DoesNotFit(f"{settings.model_path}: {plan.target.explain(plan.asked)}")
    summary = memory_plan(plan.target, plan.admission)
    return Fitted(plan.settings, tuple(plan.events()), plan.loaded, summary)


def read_budget(
    devices: Sequence[Device], marks: WantedMarks, *, mapped_bytes: int = 0, to_return: bool = False
) -> Budget:
    """The memory that there is now, control groups included.

    mapped_bytes: of files, by an engine that runs. to_return: for what comes back, which has to leave the high mark.
    """
    keeps = marks.high if to_return else marks.reserve
    [host] = pools(HostReading(host_memory(), ControlGroups(Path("/")).tightest(), mapped_bytes), (), lambda _: None)
    return Budget(
        DeviceBudget(HOST, host.total_bytes, host.free_bytes, keeps(host.total_bytes)),
        tuple(
            DeviceBudget(
                device.name,
                device.total_bytes,
                device.free_bytes,
                keeps(device.total_bytes),
                is_unified=device.is_unified,
            )
            for device in devices
        ),
    )


def _asked(settings: EngineSettings, facts: ModelFacts, devices: Sequence[Device]) -> Asked:
    return Asked(
        n_ctx=settings.n_ctx,
        kv_type=None if settings.kv_type == "auto" else settings.kv_type,
        n_gpu_layers=None if settings.n_gpu_layers < 0 else settings.n_gpu_layers,
        slots=settings.slots,
        n_layer=facts.n_layer,
        has_device=bool(devices),
        can_quantize_kv=_can_quantize_kv(settings),
    )


def _may_draft(settings: EngineSettings) -> bool:
    """Whether a draft file could be of use that nobody has named."""
    wants = settings.drafter_mode != "off" and settings.controller and settings.max_draft_tokens > 0
    return wants and settings.draft_path is None


def _can_quantize_kv(settings: EngineSettings) -> bool:
    return settings.flash_attention != "off"


async def _candidate(survey: Survey, settings: EngineSettings, path: str, check_pairs: bool) -> Candidate:
    if outdated := settings.outdated_candidates.get(path):
        return Candidate(path, outdated)
    try:
        facts = await describe(survey, path, settings.model_path)
    except HomespecError as error:
        return Candidate(path, f"its header cannot be read: {error}")
    unusable = await _unusable(survey, settings, path, check_pairs)
    return Candidate(path, unusable, follows_target=facts.drafter_kind != "draft", is_in_target=facts.is_in_target)


async def _unusable(survey: Survey, settings: EngineSettings, path: str, check_pairs: bool) -> str | None:
    if not check_pairs:
        return None
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
