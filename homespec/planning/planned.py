"""What `homespec plan` reports, from the settings."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
import psutil

from homespec.config import Settings
from homespec.errors import ConfigError, GpuMissing
from homespec.headroom.choice import TargetPlan
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import Plan, make_plan
from homespec.headroom.questions import measure_speeds
from homespec.headroom.survey import Survey
from homespec.launch import engine_settings
from homespec.planning.guidelines import Guidelines, guidelines
from homespec.planning.report import Report, report_of
from homespec.store.model_file import check_file, resolve, served_name


async def planned(settings: Settings, drafts: Sequence[str], survey: Survey) -> tuple[Report, Guidelines | None]:
    """The plan of the settings' model with the files of `drafts`, or those of the settings where it is empty, and the
    guidelines, which a model that drafts nothing has none of.

    Raises HomespecError.
    """
    settings = settings.of_first()
    named = _draft_paths(settings, drafts)
    path = resolve(settings.model, demo=settings.demo, models_dir=settings.models_dir)
    # The drafters are gone through here, each with its own verdict.
    is_off = (list(drafts) or [settings.draft]) == ["off"]
    alone = settings.model_copy(update={"draft": "off" if is_off else "auto"})
    engine = engine_settings(alone, path, settings.model_id or served_name(settings.model, path))
    if named:  # whoever names a file means it
        engine = msgspec.structs.replace(engine, draft_candidates=tuple(named), outdated_candidates={})
    plan = await make_plan(engine, engine.draft_candidates, WantedMarks.of(settings), survey, check_pairs=True)
    if settings.gpu_missing == "fail":
        GpuMissing.check(engine.n_gpu_layers, plan.devices, expected=False)
    guide = None if plan.facts.embeds_only else await _guidelines(plan, settings, survey)
    return report_of(plan, guide), guide


async def _guidelines(plan: Plan, settings: Settings, survey: Survey) -> Guidelines:
    on_device = isinstance(plan.target, TargetPlan) and plan.devices and plan.target.choice.n_gpu_layers != 0
    return guidelines(plan.facts, None if on_device else await measure_speeds(survey, _threads(settings)))


def _draft_paths(settings: Settings, drafts: Sequence[str]) -> list[str]:
    """Files to consider; `auto` and `off` name none. Raises ConfigError for a contradiction, ModelError for a file."""
    named = list(drafts) or [settings.draft]
    words = [name for name in named if name in ("auto", "off")]
    if words and len(named) > 1:
        raise ConfigError(f"--draft {words[0]} and {len(named) - 1} more: name files, or pass {words[0]!r} alone")
    return [str(check_file(name, settings.models_dir)) for name in named if name not in ("auto", "off")]


def _threads(settings: Settings) -> int:
    return settings.threads if settings.threads != "auto" else psutil.cpu_count(logical=False) or os.cpu_count() or 1
