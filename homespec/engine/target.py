"""The target: its weights, the sizes of its context, and the settings that make it exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from homespec.engine.exactness import Exactness, Measurement, Verdict, measure, unchecked
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.library import library
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import TapPlan
from homespec.engine.threads import ThreadChoice, default_threads
from homespec.engine.verdicts import Verdicts
from homespec.errors import GpuMissing, ModelUnsupported
from homespec.frames import DEFAULT_MAX_CTX, EngineSettings, Frame, Loading
from homespec.stats import MAX_DRAFT_TOKENS
from homespec.status import EXACTNESS_PENDING, DeviceMemory

MAX_SNAPSHOTS = 4
"""States that a recurrent memory may keep to take draft tokens back, beside the one it needs: each costs as much."""


def load_target(settings: EngineSettings, send: Callable[[Frame], None], *, load_mtp: bool = False) -> Model:
    """The weights; how far it is goes to `send`. Raises ModelError."""
    path = Path(settings.model_path)
    GpuMissing.check(settings.n_gpu_layers, library().offload_devices(), expected=settings.expects_gpu)
    return Model(
        path,
        n_gpu_layers=settings.n_gpu_layers,
        mmap=settings.mmap,
        progress=lambda progress: send(Loading(progress, f"loading {path.name}")),
        load_mtp=load_mtp,
    )


def device_readings(settings: EngineSettings) -> Callable[[], tuple[DeviceMemory, ...]]:
    """What is free on the devices. Without offloaded layers they are not ours to look at: looking would wake one that
    sleeps.
    """
    return library().device_memory if settings.n_gpu_layers else tuple


def target_params(settings: EngineSettings, model: Model, taps: TapPlan | None = None) -> ContextParams:
    on_cpu = _on_cpu(settings)
    outputs = settings.slots * (1 + MAX_DRAFT_TOKENS)
    # A recurrent state cannot be cut to a prefix, and each kept one would cost memory of its own.
    kept = 0 if model.is_recurrent else settings.cached_prefixes
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
        n_rs_seq=0 if settings.drafter_mode == "off" else min(settings.max_draft_tokens, MAX_SNAPSHOTS),
        taps=taps,
    )


def open_target(settings: EngineSettings, model: Model, taps: TapPlan | None = None) -> tuple[Context, Exactness]:
    """The target's context, and what is known of its exactness. taps: what a head reads of it.

    Raises ModelUnsupported when `strict` was asked for and no allowed setting gives it.
    """
    wanted = target_params(settings, model, taps)
    if settings.exactness == "strict":
        return _open_strict(settings, model, wanted)
    context = Context(model, wanted)
    threads = _threads(settings, context)
    unknown = "exactness is set to 'fast'" if settings.exactness == "fast" else EXACTNESS_PENDING
    fast = unchecked(unknown) if settings.exactness == "fast" else None
    known = (fast or Verdicts().get(context, pad_single=False)) if threads.is_known else None
    if known is not None and not threads.is_pending:
        return context, Exactness(known)
    begin = partial(_settle, context, threads, known or fast)
    return context, Exactness(known or unchecked(unknown), begin=begin, measure=begin())


def _settle(context: Context, threads: ThreadChoice, verdict: Verdict | None) -> Measurement:
    """Thread counts first: logits may depend on them. verdict: None to measure it."""
    if threads.is_pending:
        yield from threads.measure(_probe_id(context))
        verdict = verdict or Verdicts().get(context, pad_single=False)
    return verdict or (yield from measure_and_keep(context, pad_single=False))


def _open_strict(settings: EngineSettings, model: Model, wanted: ContextParams) -> tuple[Context, Exactness]:
    failures = []
    for params in _candidates(settings, wanted):
        context = Context(model, params)
        threads = _threads(settings, context)
        if threads.is_pending:
            for _ in threads.measure(_probe_id(context)):
                pass
        for pad_single in (False, True):
            verdict = Verdicts().get(context, pad_single=pad_single) or _drain(measure_and_keep(context, pad_single))
            if verdict.strict:
                return context, Exactness(verdict, pad_single=pad_single, required=True)
            if not verdict.only_single_rows_differ:
                break
        failures.append(f"{params.kv_type} KV: {verdict.reason}")
        context.close()
    raise ModelUnsupported(
        f"exactness = 'strict' cannot be had for {model.path}: {'; '.join(failures)}. Use exactness = 'auto'"
    )


def _threads(settings: EngineSettings, context: Context) -> ThreadChoice:
    return ThreadChoice(context, is_free=settings.threads is None and _on_cpu(settings))


def _on_cpu(settings: EngineSettings) -> bool:
    """Whether all of the target is there."""
    return not library().offload_devices() or settings.n_gpu_layers == 0


def _probe_id(context: Context) -> int:
    """The sequence that is set aside for measurements."""
    return context.params.n_seq_max - 1


def _candidates(settings: EngineSettings, wanted: ContextParams) -> list[ContextParams]:
    """Settings to try, fastest first; what the user set explicitly is not changed."""
    if settings.kv_type != "auto":
        return [wanted]
    # A quantised cache needs flash attention.
    possible = ("bf16", "f32") if settings.flash_attention == "off" else ("bf16", "q8_0", "f32")
    others = [kv_type for kv_type in possible if kv_type != wanted.kv_type]
    return [wanted, *(replace(wanted, kv_type=kv_type) for kv_type in others)]


def measure_and_keep(context: Context, pad_single: bool) -> Measurement:
    """Measure in small steps, on the sequence id that is set aside for it, and remember the verdict."""
    rows = context.params.n_outputs_max
    verdict = yield from measure(context, _probe_id(context), max_rows=rows, pad_single=pad_single)
    Verdicts().put(context, verdict, pad_single=pad_single)
    return verdict


def _drain(measurement: Measurement) -> Verdict:
    while True:
        try:
            next(measurement)
        except StopIteration as done:
            verdict: Verdict = done.value
            return verdict
