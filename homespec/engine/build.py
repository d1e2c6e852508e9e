"""Putting the engine together from its settings: target, context, template, drafters, scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from homespec.engine.drafters.model import ModelDrafter
from homespec.engine.drafters.pair import mismatch
from homespec.engine.drafters.roster import Roster
from homespec.engine.exactness import Exactness, Measurement, Verdict, measure, unchecked
from homespec.engine.grammar import GrammarCompiler
from homespec.engine.llama.context import Context, ContextParams
from homespec.engine.llama.guidance import GuidanceVocab
from homespec.engine.llama.library import library
from homespec.engine.llama.model import Model
from homespec.engine.llama.vocab import Vocab
from homespec.engine.prompt import PromptReader
from homespec.engine.round import MAX_DRAFT_TOKENS
from homespec.engine.scheduler import Scheduler
from homespec.engine.sequence import Sequence
from homespec.engine.template import ChatTemplate
from homespec.engine.verdicts import Verdicts
from homespec.errors import DrafterError, ModelError, ModelUnsupported, RequestError
from homespec.frames import EngineSettings, Frame, Generate, Happened, Loading
from homespec.status import ModelStatus

DEFAULT_MAX_CTX = 8192
"""Context when none is asked for, unless the model was trained for less."""

Send = Callable[[Frame], None]


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything that is loaded."""

    context: Context
    roster: Roster
    scheduler: Scheduler
    prompts: PromptReader
    grammars: GrammarCompiler
    status: ModelStatus

    @property
    def vocab(self) -> Vocab:
        return self.context.model.vocab

    def sequence(self, request: Generate) -> Sequence:
        """A request made ready for the scheduler. Raises RequestError."""
        for token_id in request.sampling.logit_bias:
            if not 0 <= token_id < self.vocab.n_vocab:
                raise RequestError(
                    f"logit_bias names token {token_id}; the vocabulary has {self.vocab.n_vocab}", param="logit_bias"
                )
        grammar = self.grammars.compile(request.constraint) if request.constraint else None
        prompt_ids = self.prompts.read(request)
        sequence = Sequence(request, prompt_ids, n_ctx=self.context.n_ctx, grammar=grammar)
        if request.echo:
            sequence.text.begin(self.vocab.detokenize(prompt_ids))
        return sequence


def build_engine(settings: EngineSettings, *, send: Send, load: Callable[[], None]) -> Engine:
    """Load the target and everything around it; `load` starts loading the draft model. Raises ModelError."""
    path = Path(settings.model_path)
    model = Model(
        path,
        n_gpu_layers=settings.n_gpu_layers,
        mmap=settings.mmap,
        progress=lambda progress: send(Loading(progress, f"loading {path.name}")),
    )
    if model.has_encoder:
        raise ModelUnsupported(f"{path} is an encoder-decoder model; homespec serves decoder-only models")
    template = _template(model)
    context, exactness = open_target(settings, model)
    roster = Roster(
        settings.drafter_mode,
        draft_path=settings.draft_path,
        load=load,
        announce=lambda text: send(Happened("drafter", text)),
        quarantined=settings.quarantined,
    )
    scheduler = Scheduler(
        context,
        roster,
        num_running=settings.slots,
        prefill_chunk=settings.prefill_chunk,
        max_draft_tokens=settings.max_draft_tokens,
        send=send,
        exactness=exactness,
    )
    prompts = PromptReader(model.vocab, template, n_ctx=context.n_ctx)
    grammars = GrammarCompiler(GuidanceVocab(model.vocab))
    return Engine(context, roster, scheduler, prompts, grammars, _status(settings, context, template))


def build_drafter(settings: EngineSettings, target: Context) -> ModelDrafter:
    """Load the draft model of the settings. Raises DrafterError with the reason it cannot be used."""
    assert settings.draft_path is not None
    try:
        model = Model(Path(settings.draft_path), n_gpu_layers=settings.n_gpu_layers, mmap=settings.mmap)
    except ModelError as error:
        raise DrafterError(str(error)) from error
    try:
        return _draft_with(model, target, settings)
    except BaseException:
        model.close()
        raise


def target_params(settings: EngineSettings, model: Model) -> ContextParams:
    on_cpu = not library().offload_devices() or settings.n_gpu_layers == 0
    outputs = settings.slots * (1 + MAX_DRAFT_TOKENS)
    # A recurrent state cannot be cut to a prefix, and each kept one would cost memory of its own.
    kept = settings.cached_prefixes if model.can_roll_back else 0
    # On the CPU, one-row attention over f16 keys is split among threads from 512 cells on and then differs in the
    # last bits from every batch; bf16 keys take one path for all.
    kv_type = "bf16" if on_cpu and settings.exactness != "fast" else "f16"
    return ContextParams(
        n_ctx=settings.n_ctx or min(model.n_ctx_train, DEFAULT_MAX_CTX),
        n_seq_max=settings.slots + kept + 1,  # the last id is set aside for the exactness probe
        n_outputs_max=outputs,
        n_batch=max(settings.prefill_chunk, outputs),
        n_threads=settings.threads or default_threads(),
        kv_type=kv_type if settings.kv_type == "auto" else settings.kv_type,
        flash_attention="on" if settings.flash_attention == "auto" and on_cpu else settings.flash_attention,
    )


def open_target(settings: EngineSettings, model: Model) -> tuple[Context, Exactness]:
    """The target's context, and what is known of its exactness.

    Raises ModelUnsupported when `strict` was asked for and no allowed setting gives it.
    """
    wanted = target_params(settings, model)
    if settings.exactness == "fast":
        return Context(model, wanted), Exactness(unchecked("exactness is set to 'fast'"))
    if not model.can_roll_back:
        reason = f"nothing is drafted: architecture {model.architecture!r} cannot take tokens back"
        return Context(model, wanted), Exactness(Verdict(True, reason))
    if settings.exactness == "strict":
        return _open_strict(settings, model, wanted)
    context = Context(model, wanted)
    known = Verdicts().get(context, pad_single=False)
    if known is not None:
        return context, Exactness(known)
    return context, Exactness(unchecked("being measured"), measure=measure_and_keep(context, pad_single=False))


def _open_strict(settings: EngineSettings, model: Model, wanted: ContextParams) -> tuple[Context, Exactness]:
    failures = []
    for params in _candidates(settings, wanted):
        context = Context(model, params)
        for pad_single in (False, True):
            verdict = Verdicts().get(context, pad_single=pad_single) or _drain(measure_and_keep(context, pad_single))
            if verdict.strict:
                return context, Exactness(verdict, pad_single=pad_single)
            if not verdict.only_single_rows_differ:
                break
        failures.append(f"{params.kv_type} KV: {verdict.reason}")
        context.close()
    raise ModelUnsupported(
        f"exactness = 'strict' cannot be had for {model.path}: {'; '.join(failures)}. Use exactness = 'auto'"
    )


def _candidates(settings: EngineSettings, wanted: ContextParams) -> list[ContextParams]:
    """Settings to try, fastest first; what the user set explicitly is not changed."""
    if settings.kv_type != "auto":
        return [wanted]
    others = [kv_type for kv_type in ("bf16", "q8_0", "f32") if kv_type != wanted.kv_type]
    return [wanted, *(replace(wanted, kv_type=kv_type) for kv_type in others)]


def measure_and_keep(context: Context, pad_single: bool) -> Measurement:
    """Measure in small steps, on the sequence id that is set aside for it, and remember the verdict."""
    rows = context.params.n_outputs_max
    verdict = yield from measure(context, context.params.n_seq_max - 1, max_rows=rows, pad_single=pad_single)
    Verdicts().put(context, verdict, pad_single=pad_single)
    return verdict


def _drain(measurement: Measurement) -> Verdict:
    while True:
        try:
            next(measurement)
        except StopIteration as done:
            verdict: Verdict = done.value
            return verdict


def default_threads() -> int:
    """Physical cores that this process may use: sharing a core with another thread makes both decode slower."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def _draft_with(model: Model, target: Context, settings: EngineSettings) -> ModelDrafter:
    if reason := mismatch(target.model.vocab, model.vocab):
        raise DrafterError(f"does not match the target: {reason}. Use a draft model of the target's family")
    if not model.can_roll_back:
        raise DrafterError(f"architecture {model.architecture!r} cannot take tokens back, which drafting needs")
    params = ContextParams(
        n_ctx=min(target.n_ctx, max(model.n_ctx_train, 256)),
        n_seq_max=target.params.n_seq_max,
        n_outputs_max=settings.slots,
        n_batch=target.params.n_batch,
        n_threads=target.params.n_threads,
        kv_type=target.params.kv_type,
        flash_attention=target.params.flash_attention,
    )
    try:
        context = Context(model, params)
    except ModelError as error:
        raise DrafterError(str(error)) from error
    return ModelDrafter(context, target.model.vocab, chunk=settings.prefill_chunk)


def _template(model: Model) -> ChatTemplate | None:
    source = model.chat_template
    if source is None:
        return None
    vocab = model.vocab
    bos, eos = (vocab.detokenize([token]) if token is not None else "" for token in (vocab.bos, vocab.eos))
    return ChatTemplate(source, bos=bos, eos=eos)


def _status(settings: EngineSettings, context: Context, template: ChatTemplate | None) -> ModelStatus:
    model = context.model
    return ModelStatus(
        id=settings.model_id,
        path=settings.model_path,
        description=model.description,
        architecture=model.architecture,
        num_params=model.num_params,
        size_bytes=model.size_bytes,
        n_vocab=model.vocab.n_vocab,
        n_layer=model.n_layer,
        n_ctx=context.n_ctx,
        n_ctx_train=model.n_ctx_train,
        slots=settings.slots,
        kv_type=context.params.kv_type,
        flash_attention=context.flash_attention,
        threads=context.params.n_threads,
        devices=(*(library().offload_devices() if settings.n_gpu_layers else ()), "CPU"),
        chat_template="the model file" if template else None,
    )
