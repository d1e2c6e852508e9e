"""The configured draft file: what it holds, what the target must give out for it, and the drafter that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from homespec.engine.draft_params import draft_gpu_layers, draft_params, draft_window
from homespec.engine.drafters.dflash import open_dflash
from homespec.engine.drafters.drafter import Drafter
from homespec.engine.drafters.dspark import open_dspark
from homespec.engine.drafters.eagle3 import open_eagle3
from homespec.engine.drafters.hosts import host_of
from homespec.engine.drafters.kind import DFLASH, DRAFT, EAGLE3, GEMMA4_ASSISTANT, MTP, SYMBOLS, Head, read_head
from homespec.engine.drafters.model import ModelDrafter
from homespec.engine.drafters.mtp import open_mtp
from homespec.engine.drafters.pair import head_mismatch, mismatch
from homespec.engine.drafters.shared import open_shared
from homespec.engine.embedding.kind import embeds_alone
from homespec.engine.llama.context import Context
from homespec.engine.llama.gguf import open_header
from homespec.engine.llama.library import library
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import TapPlan
from homespec.errors import DrafterError, ModelError
from homespec.frames import EngineSettings
from homespec.stats import MAX_DRAFT_TOKENS

OpenDrafter = Callable[[], Drafter]


def head_of(settings: EngineSettings) -> Head | None:
    """What the draft file holds; None without one that can be read: loading it later gives the reason."""
    if settings.draft_path is None:
        return None
    try:
        return read_head(Path(settings.draft_path), Path(settings.model_path))
    except ModelError:
        return None


def taps_for(head: Head | None, model: Model) -> TapPlan | None:
    """What the target's context must give out for a head; None when there is none that fits."""
    if head is None or not head.reads_target or _unusable(head, model):
        return None
    return TapPlan(head.target_layers)


def load_drafter(settings: EngineSettings, target: Context, wanted: Callable[[], bool] = lambda: True) -> OpenDrafter:
    """Load the draft file's weights, which may run beside the decode loop; what is returned makes the drafter.

    wanted: asked while the weights load; once it says no, the load is given up as one that failed.

    Heads borrow from the target's context and listen to it, so they are opened on the thread that owns it. Both raise
    DrafterError with the reason why the file cannot be used.
    """
    assert settings.draft_path is not None
    try:
        head = read_head(Path(settings.draft_path), Path(settings.model_path))
        if head.reads_target and (reason := _unusable(head, target.model)):
            raise DrafterError(f"the {head.kind} head does not fit the target: {reason}")
        model = _load_model(settings, target, head, wanted)
    except ModelError as error:
        raise DrafterError(str(error)) from error
    if not head.reads_target:
        drafter = _owned(model, target, partial(_open_draft, model, target, settings))
        return lambda: drafter
    if target.taps is None:
        raise DrafterError("the target was loaded without what the head reads; restart to use it")
    return partial(_owned, model, target, partial(_open_head, model, target, head, settings))


def _load_model(settings: EngineSettings, target: Context, head: Head, wanted: Callable[[], bool]) -> Model:
    assert settings.draft_path is not None
    if head.is_in_target:
        return target.model
    return Model(
        Path(settings.draft_path),
        n_gpu_layers=draft_gpu_layers(settings),
        mmap=settings.mmap,
        load_mtp=head.kind == MTP,
        wanted=wanted,
    )


def _unusable(head: Head, model: Model) -> str | None:
    return missing_symbols(head.kind) or head_mismatch(host_of(model), head)


def missing_symbols(kind: str) -> str | None:
    """Why this build of llama.cpp cannot run a kind of drafter, or None when it can."""
    missing = [name for name in SYMBOLS[kind] if name in library().missing]
    return f"llama-cpp-python {library().version} lacks {', '.join(missing)}" if missing else None


def unfit(model: Model) -> Iterator[str]:
    """Why a model could draft for no target; vocabularies do not tell."""
    if model.is_recurrent:
        yield f"architecture {model.architecture!r} cannot take tokens back, which drafting needs"
    with open_header(model.path) as header:
        if model.has_encoder or embeds_alone(header):
            yield "it was made to embed texts or to turn one into another, and does not go on with one"


def _owned(model: Model, target: Context, open_drafter: OpenDrafter) -> Drafter:
    """A model that no drafter comes of is given back."""
    try:
        return open_drafter()
    except BaseException as error:
        if model is not target.model:
            model.close()
        if isinstance(error, ModelError):
            raise DrafterError(str(error)) from error
        raise


def _open_head(model: Model, target: Context, head: Head, settings: EngineSettings) -> Drafter:
    sizes = {"num_running": settings.slots, "chunk": settings.prefill_chunk, "rows_per_slot": 1 + MAX_DRAFT_TOKENS}
    if head.kind == EAGLE3:
        return open_eagle3(model, target, **sizes)
    if head.architecture == GEMMA4_ASSISTANT:
        return open_shared(model, target)
    if head.kind == MTP:
        return open_mtp(model, target, **sizes)
    if model.vocab.mask is None:
        raise DrafterError("the file names no mask token, which the head needs to draft")
    return (open_dflash if head.kind == DFLASH else open_dspark)(model, target, head, **sizes)


def _open_draft(model: Model, target: Context, settings: EngineSettings) -> Drafter:
    if reason := mismatch(target.model.vocab, model.vocab):
        raise DrafterError(f"does not match the target: {reason}. Use a draft model of the target's family")
    if reason := next(unfit(model), None):
        raise DrafterError(reason)
    context = Context(model, draft_params(settings, model, target.params), crew=target.crew)
    window = draft_window(settings, model, target.params)
    chunk = min(settings.prefill_chunk, context.params.n_batch)
    return ModelDrafter(context, target.model.vocab, chunk=chunk, window=window)


def kind_of(head: Head | None) -> str:
    """Name of the drafter that a draft file gives."""
    return DRAFT if head is None else head.kind
