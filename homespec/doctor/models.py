"""The model files that the configuration names, and whether they fit into what is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

import psutil

from homespec.config import Settings
from homespec.doctor.check import Check, fail, of_error, ok, warn
from homespec.errors import ConfigError, EngineError, HomespecError, ModelError
from homespec.headroom.choice import Refusal
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import Plan, make_plan
from homespec.headroom.survey import Survey
from homespec.launch import engine_settings
from homespec.store.model_file import check_file, resolve, served_name
from homespec.units import format_bytes

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "fuse.sshfs", "9p", "webdav"})


def find_target(settings: Settings) -> tuple[Path | None, Check]:
    """The target's file when it is a sound one, and the check."""
    if not settings.model and not settings.demo:
        remedy = "'homespec pull OWNER/NAME-GGUF' fetches one; set model in the configuration, or name it to serve"
        return None, warn("model", "none is configured", remedy)
    try:
        path = resolve(settings.model, demo=settings.demo, models_dir=settings.models_dir)
    except HomespecError as error:
        return None, of_error("model", error, "'homespec models' lists what is there")
    if kind := network_drive(path, psutil.disk_partitions(all=True)):
        text = f"{path} lies on a network drive ({kind}): pages that memory lets go are read again over the network"
        return path, warn("model", text, "copy it to a disk of this box, or set mmap = false")
    return path, ok("model", f"{path}: a sound GGUF")


def check_draft(settings: Settings) -> Check | None:
    """The draft's file; None when none is configured."""
    if settings.draft in ("auto", "off"):
        return None
    try:
        path = check_file(settings.draft, settings.models_dir)
    except ModelError as error:
        return of_error("draft model", error, "'homespec models' lists what is there")
    return ok("draft model", f"{path}: a sound GGUF; 'homespec pair' says whether it suits the target")


def check_others(settings: Settings) -> Iterator[Check]:
    """More models that the configuration names. One that is broken harms only those who ask for it."""
    others = {name: str(table["path"]) for name, table in settings.models.items() if name != settings.first}
    for name, path in others.items():
        try:
            check_file(path, settings.models_dir)
        except ModelError as error:
            text, _, remedy = str(error).rpartition("; ")
            yield warn(
                "models", f"{name}: {text or remedy}", remedy if text else "'homespec models' lists what is there"
            )
        else:
            yield ok("models", f"{name}: {path}")


def network_drive(path: PurePath, partitions: Sequence[object]) -> str | None:
    """The file system of `path` when it is on another machine; `partitions` as psutil lists them."""
    mounts = [(PurePath(str(getattr(each, "mountpoint", ""))), str(getattr(each, "fstype", ""))) for each in partitions]
    holding = [(mount, kind) for mount, kind in mounts if path.is_relative_to(mount)]
    _, kind = max(holding, key=lambda pair: len(pair[0].parts), default=(None, ""))
    return kind if kind in _NETWORK else None


async def check_fit(settings: Settings, path: Path) -> Iterator[Check]:
    """The verdict of the planner on what is free now."""
    engine = engine_settings(settings, path, served_name(settings.model, path))
    drafts = [engine.draft_path] if engine.draft_path and "draft" not in engine.quarantined else []
    async with Survey() as survey:
        try:
            plan = await make_plan(engine, drafts, WantedMarks.of(settings), survey, check_pairs=True)
        except EngineError as error:
            return iter([warn("fits", f"it cannot be measured: {error}", "see the check of the library above")])
        except (ConfigError, ModelError) as error:
            return iter([of_error("fits", error, "see docs/memory.md")])
    return fit_checks(plan)


def fit_checks(plan: Plan) -> Iterator[Check]:
    """Of the target, and of each draft model."""
    if isinstance(plan.target, Refusal):
        text, _, nearest = plan.target.explain(plan.asked).partition(". ")
        yield fail("fits", text, nearest)
        return
    footprint = plan.target.footprint
    left = {name: size for name, size in plan.budget.headroom_after(footprint).items() if size is not None}
    room = ", ".join(f"{format_bytes(size)} on {name}" for name, size in left.items()) or "an unknown rest"
    needs = f"{format_bytes(footprint.total_bytes)} for {footprint.n_ctx} tokens of context"
    how = "" if footprint.measured else f" (computed: {footprint.note})"
    changes = "".join(f"; {change}" for change in plan.target.changes)
    yield ok("fits", f"{needs}{how}, which leaves {room}{changes}")
    for verdict in plan.admission.verdicts if plan.admission else ():
        if verdict.path is not None and verdict.is_admitted:
            yield ok("draft fits", verdict.reason)
        elif verdict.path is not None:
            yield warn("draft fits", verdict.reason, "'homespec plan' has the numbers; without it the free ones draft")
