"""The two commands. stdout is for data: a table, or JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module

import psutil

from homespec.config import Settings
from homespec.errors import ConfigError, ExitCode
from homespec.frames import EngineSettings
from homespec.headroom.choice import TargetPlan
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import Plan, make_plan
from homespec.headroom.survey import Survey
from homespec.launch import engine_settings
from homespec.planning.guidelines import guidelines
from homespec.planning.pairing import PairVerdict, check_pairs
from homespec.planning.report import report_of
from homespec.store.model_file import check_file, resolve, served_name

_PIPE_WIDTH = 200
_LOADED_LATER = ("homespec.planning.machine", "homespec.planning.tables")
"""numpy and rich take as long to import as the child takes to start."""


def run_plan(settings: Settings, drafts: Sequence[str], *, as_json: bool) -> ExitCode:
    """Print what fits. DOES_NOT_FIT when the target does not. Raises HomespecError."""
    named = _draft_paths(settings, drafts)
    path = resolve(settings.model, demo=settings.demo, models_dir=settings.models_dir)
    # The drafters are gone through here, each with its own verdict.
    is_off = (list(drafts) or [settings.draft]) == ["off"]
    alone = settings.model_copy(update={"draft": "off" if is_off else "auto"})
    engine = engine_settings(alone, path, settings.model_id or served_name(settings.model, path))
    plan = asyncio.run(_plan(engine, named or engine.draft_candidates, WantedMarks.of(settings)))
    from homespec.planning.machine import measure_machine
    from homespec.planning.tables import console, print_plan

    on_device = isinstance(plan.target, TargetPlan) and plan.devices and plan.target.choice.n_gpu_layers != 0
    guide = guidelines(plan.facts, None if on_device else measure_machine(_threads(settings)))
    report = report_of(plan, guide)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print_plan(console(_width()), report, guide)
    return ExitCode.OK if report["fits"] else ExitCode.DOES_NOT_FIT


def run_pair(target: str, drafts: Sequence[str], *, as_json: bool) -> ExitCode:
    """Print a verdict per candidate. FAILURE when none of them can be used. Raises HomespecError."""
    path = str(check_file(target))
    verdicts = asyncio.run(_pairs(path, drafts))
    if as_json:
        rows = [{**asdict(verdict), "usable": verdict.is_usable} for verdict in verdicts]
        print(json.dumps({"target": path, "drafters": rows}, indent=2))
    else:
        from homespec.planning.tables import console, print_pairs

        print_pairs(console(_width()), verdicts)
    return ExitCode.OK if any(verdict.is_usable for verdict in verdicts) else ExitCode.FAILURE


async def _plan(settings: EngineSettings, drafts: Sequence[str], marks: WantedMarks) -> Plan:
    async with Survey() as survey:
        loading = asyncio.to_thread(lambda: [import_module(name) for name in _LOADED_LATER])
        plan, _ = await asyncio.gather(make_plan(settings, drafts, marks, survey, check_pairs=True), loading)
        return plan


async def _pairs(target: str, drafts: Sequence[str]) -> list[PairVerdict]:
    async with Survey() as survey:
        return await check_pairs(target, drafts, survey)


def _draft_paths(settings: Settings, drafts: Sequence[str]) -> list[str]:
    """Files to consider; `auto` and `off` name none. Raises ConfigError for a contradiction, ModelError for a file."""
    named = list(drafts) or [settings.draft]
    words = [name for name in named if name in ("auto", "off")]
    if words and len(named) > 1:
        raise ConfigError(f"--draft {words[0]} and {len(named) - 1} more: name files, or pass {words[0]!r} alone")
    return [str(check_file(name, settings.models_dir)) for name in named if name not in ("auto", "off")]


def _width() -> int | None:
    """The terminal's; wide enough for any reason where there is none."""
    return None if sys.stdout.isatty() else _PIPE_WIDTH


def _threads(settings: Settings) -> int:
    return settings.threads if settings.threads != "auto" else psutil.cpu_count(logical=False) or os.cpu_count() or 1
