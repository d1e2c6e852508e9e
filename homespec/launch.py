"""From the user's settings to the engine's."""

from __future__ import annotations

from pathlib import Path

from homespec.config import Settings
from homespec.errors import ModelError
from homespec.folders import expanded
from homespec.frames import EngineSettings
from homespec.split import parts
from homespec.store.companions import companions
from homespec.store.model_file import check, find
from homespec.units import MIB, one_line


def engine_settings(settings: Settings, model_path: Path, model_id: str) -> EngineSettings:
    """What the engine is told of the daemon's settings."""
    draft_path: str | None = None
    quarantined: dict[str, str] = {}
    if settings.draft not in ("auto", "off"):
        path = parts(find(settings.draft, settings.models_dir))[0]
        draft_path = _path_text(path)
        try:
            check(path)
        except ModelError as error:
            quarantined["draft"] = one_line(str(error))
    candidates = _candidates(settings, model_path)
    return EngineSettings(
        model_path=str(model_path),
        model_id=model_id,
        draft_path=draft_path,
        draft_candidates=tuple(candidates),
        outdated_candidates={path: reason for path, reason in candidates.items() if reason},
        quarantined=quarantined,
        drafter_mode="off" if settings.draft == "off" else "auto",
        draft_window=None if settings.draft_window == "full" else settings.draft_window,
        past_outputs_bytes=settings.past_outputs_mib * MIB,
        past_outputs_path=_path_text(settings.past_outputs_file) if settings.past_outputs_file else None,
        max_draft_tokens=settings.draft_ceiling,
        controller=settings.controller == "auto",
        n_ctx=None if settings.ctx == "auto" else settings.ctx,
        slots=settings.slots,
        cached_prefixes=settings.cached_prefixes,
        threads=None if settings.threads == "auto" else settings.threads,
        nice=settings.nice,
        n_gpu_layers=-1 if settings.gpu_layers == "auto" else settings.gpu_layers,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
        mmap=settings.mmap,
        acceptance=settings.acceptance,
        exactness=settings.exactness,
        embeddings=settings.embeddings,
        chat_template=settings.chat_template,
        log_native=settings.log_level == "debug",
    )


def _candidates(settings: Settings, model_path: Path) -> dict[str, str | None]:
    """Files that lie with the model, and why not each of them. Only where both are weighed: whether they fit, and
    whether they pay.
    """
    if settings.draft != "auto" or settings.fit == "off" or settings.controller == "off":
        return {}
    return {_path_text(found.path): found.unusable for found in companions(model_path)}


def _path_text(path: Path) -> str:
    """Frames hold text: a name that is none goes escaped, and the reason with it."""
    return str(expanded(path).absolute()).encode(errors="backslashreplace").decode()
