"""The two commands. stdout is for data: a table, or JSON.

The child that measures loads the native library for as long as this process loads the rest of itself, so it is started
first, and what a command runs is imported behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from homespec.errors import ExitCode
from homespec.headroom.survey import Survey


def run_plan(flags: Mapping[str, Any], config_file: Path | None, drafts: Sequence[str], *, as_json: bool) -> ExitCode:
    """Print what fits. DOES_NOT_FIT when the target does not. Raises HomespecError."""
    return asyncio.run(_plan(flags, config_file, drafts, as_json=as_json))


def run_pair(target: str, drafts: Sequence[str], *, as_json: bool) -> ExitCode:
    """Print a verdict per candidate. FAILURE when none of them can be used. Raises HomespecError."""
    return asyncio.run(_pair(target, drafts, as_json=as_json))


async def _plan(
    flags: Mapping[str, Any], config_file: Path | None, drafts: Sequence[str], *, as_json: bool
) -> ExitCode:
    async with Survey() as survey:
        from homespec.config import load
        from homespec.planning.planned import planned
        from homespec.planning.tables import print_plan

        report, guide = await planned(load(flags, config_file), drafts, survey)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print_plan(report, guide)
    return ExitCode.OK if report["fits"] else ExitCode.DOES_NOT_FIT


async def _pair(target: str, drafts: Sequence[str], *, as_json: bool) -> ExitCode:
    async with Survey() as survey:
        from homespec.config import load
        from homespec.planning.pairing import check_pairs
        from homespec.planning.tables import print_pairs
        from homespec.store.model_file import check_file

        models_dir = load({}).models_dir
        path = str(check_file(target, models_dir))
        verdicts = await check_pairs(path, drafts, models_dir, survey)
    if as_json:
        rows = [{**asdict(verdict), "usable": verdict.is_usable} for verdict in verdicts]
        print(json.dumps({"target": path, "drafters": rows}, indent=2))
    else:
        print_pairs(verdicts)
    return ExitCode.OK if any(verdict.is_usable for verdict in verdicts) else ExitCode.FAILURE
