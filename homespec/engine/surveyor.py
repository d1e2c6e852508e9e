"""The child that measures: `python -m homespec.engine.surveyor`, questions as lines of JSON in, answers out.

A process of its own, because llama.cpp may abort in a dry run as in a real one, and whoever asks must live on. It keeps
the vocabularies that it has read, so that a second question about a model takes milliseconds.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import msgspec

from homespec.engine.draft_file import missing_symbols, unfit
from homespec.engine.draft_params import draft_gpu_layers, draft_params
from homespec.engine.drafters.head import head_params
from homespec.engine.drafters.hosts import Host
from homespec.engine.drafters.kind import DRAFT, MTP, Head, head_in, read_head
from homespec.engine.drafters.pair import head_mismatches, mismatches
from homespec.engine.embedding.kind import embedding_kind, embeds_alone
from homespec.engine.embedding.params import embedding_params
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.dry_run import footprint, with_taps
from homespec.engine.llama.gguf import GgufHeader, open_header
from homespec.engine.llama.library import library
from homespec.engine.llama.model import Load, Model
from homespec.engine.llama.weights import Part, tensors_of
from homespec.engine.speeds import measure_speeds
from homespec.engine.target import target_params
from homespec.errors import HomespecError
from homespec.footprint import (
    Answer,
    CheckPair,
    Described,
    DescribeModel,
    Device,
    Devices,
    Failed,
    Footprint,
    ListDevices,
    MeasureSpeeds,
    ModelFacts,
    PairChecked,
    Question,
    Sized,
    SizeDrafter,
    SizeTarget,
)
from homespec.frames import EngineSettings
from homespec.parent import die_with_parent, reserve_stdout
from homespec.split import parts
from homespec.stats import MAX_DRAFT_TOKENS
from homespec.status import DeviceMemory

_dry_models: dict[tuple[str, int, bool], Model] = {}


def answer(question: Question) -> Answer:
    """What the question asks for, or Failed with the reason."""
    try:
        match question:
            case DescribeModel(path, target_path):
                return Described(describe(Path(path), None if target_path is None else Path(target_path)))
            case ListDevices():
                devices = tuple(_device(each) for each in library().device_memory())
                return Devices(devices, may_change=not library().is_for_cpu_only)
            case SizeTarget(settings):
                return _size_target(settings)
            case SizeDrafter(settings):
                return _size_drafter(settings)
            case CheckPair(target_path, draft_path):
                return _check_pair(Path(target_path), Path(draft_path))
            case MeasureSpeeds(threads):
                return measure_speeds(threads)
    except HomespecError as error:
        return Failed(type(error).__name__, str(error))


def describe(path: Path, target_path: Path | None = None) -> ModelFacts:
    """Facts of a file from its header alone; of what would draft for `target_path`, where there is one. Raises
    ModelNotFound or ModelCorrupt.
    """
    with ExitStack() as opened:
        headers = [opened.enter_context(open_header(file)) for file in parts(path)]
        for each in headers:
            each.check_complete()
        header = headers[0]
        head = head_in(header, is_target=target_path is not None and path.samefile(target_path))
        loaded = [tensor for tensors in tensors_of(headers, _part_of(head)) for tensor in tensors]
        weights_bytes = sum(tensor.size_bytes for tensor in loaded)
        n_embd, n_head = _size(header, "embedding_length"), _size(header, "attention.head_count")
        key_width = _size(header, "attention.key_length") or n_embd // max(n_head, 1)
        return ModelFacts(
            architecture=header.architecture,
            file_bytes=weights_bytes if head.is_in_target else sum(each.path.stat().st_size for each in headers),
            weights_bytes=weights_bytes,
            num_params=sum(tensor.num_elements for tensor in loaded),
            n_layer=head.num_mtp_layers if head.kind == MTP else _size(header, "block_count"),
            n_embd=n_embd,
            n_ff=_size(header, "feed_forward_length"),
            n_vocab=head.n_vocab or _size(header, "vocab_size"),
            n_ctx_train=_size(header, "context_length"),
            n_head=n_head,
            n_head_kv=_size(header, "attention.head_count_kv") or n_head,
            head_widths=(key_width, _size(header, "attention.value_length") or key_width),
            drafter_kind=head.kind,
            target_layers=head.target_layers,
            block_size=head.block_size,
            is_in_target=head.is_in_target,
            num_mtp_layers=0 if head.kind == MTP else head.num_mtp_layers,
            embeds_only=head.kind == DRAFT and embeds_alone(header),
        )


def _size_target(settings: EngineSettings) -> Sized:
    model = _dry(settings.model_path, settings.n_gpu_layers)
    kind = embedding_kind(Path(settings.model_path), settings.embeddings)
    if kind is not None and kind.embeds_only:
        return Sized(_footprint(model, embedding_params(settings, model, kind), settings))
    target = _footprint(model, target_params(settings, model), settings)
    if kind is None:
        return Sized(target)
    return Sized(target.with_context(_footprint(model, embedding_params(settings, model, kind), settings)))


def _footprint(model: Model, params: ContextParams, settings: EngineSettings) -> Footprint:
    context = Context(model, params)
    try:
        return footprint(context, mmap=settings.mmap)
    finally:
        context.close()


def _size_drafter(settings: EngineSettings) -> Sized:
    assert settings.draft_path is not None
    head = read_head(Path(settings.draft_path), Path(settings.model_path))
    if head.reads_target:
        return _size_head(settings, head)
    target = _dry(settings.model_path, settings.n_gpu_layers)
    model = _dry(settings.draft_path, draft_gpu_layers(settings))
    context = Context(model, draft_params(settings, model, target_params(settings, target)))
    try:
        return Sized(footprint(context, mmap=settings.mmap))
    finally:
        context.close()


def _size_head(settings: EngineSettings, head: Head) -> Sized:
    """With what the target spends on handing its states out."""
    assert settings.draft_path is not None
    target = _dry(settings.model_path, settings.n_gpu_layers, load_mtp=head.is_in_target)
    is_mtp = head.kind == MTP
    model = target if head.is_in_target else _dry(settings.draft_path, draft_gpu_layers(settings), load_mtp=is_mtp)
    with ExitStack() as contexts:
        other = Context(target, target_params(settings, target))
        contexts.callback(other.close)
        params = head_params(other, head, rows_per_slot=1 + MAX_DRAFT_TOKENS, num_running=settings.slots)
        context = Context(model, params, other=other)
        contexts.callback(context.close)
        size = footprint(context, mmap=settings.mmap, part=_part_of(head))
        return Sized(with_taps(size, other, num_taps=max(1, len(head.target_layers))))


def _part_of(head: Head) -> Part:
    """What a drafter loads of its file."""
    if head.is_in_target:
        return Part.HEADS
    return Part.ALL if head.kind == MTP else Part.TRUNK


def _check_pair(target_path: Path, draft_path: Path) -> PairChecked:
    head = read_head(draft_path, target_path)
    if head.reads_target:
        target = describe(target_path)
        host = Host(target.architecture, target.n_embd, target.n_layer - target.num_mtp_layers, target.n_vocab)
        missing = missing_symbols(head.kind)
        return PairChecked(head.kind, (*([missing] if missing else []), *head_mismatches(host, head)))
    target_model, model = _read(str(target_path)), _read(str(draft_path))
    return PairChecked(head.kind, (*mismatches(target_model.vocab, model.vocab), *unfit(model)))


def _device(memory: DeviceMemory) -> Device:
    # Metal calls itself a GPU of its own; its memory is the box's all the same.
    is_unified = memory.integrated or memory.name.startswith(("Metal", "MTL"))
    return Device(memory.name, memory.description, memory.total_bytes, memory.free_bytes, is_unified)


def _dry(path: str, n_gpu_layers: int, *, load_mtp: bool = False) -> Model:
    """A model to take sizes from."""
    key = (path, n_gpu_layers, load_mtp)
    if key not in _dry_models:
        _dry_models[key] = Model(Path(path), n_gpu_layers=n_gpu_layers, load=Load.SIZES, load_mtp=load_mtp)
    return _dry_models[key]


def _read(path: str) -> Model:
    """A model to take the vocabulary from: reading it is what takes time, so one that is there will do."""
    there = (model for (of, _, _), model in _dry_models.items() if of == path)
    return next(there, None) or _vocabulary(path)


@cache
def _vocabulary(path: str) -> Model:
    return Model(Path(path), load=Load.VOCABULARY)


def _size(header: GgufHeader, key: str) -> int:
    """A size of the architecture; where it differs from layer to layer, the largest; 0 where the file has none."""
    value = header.get(f"{header.architecture}.{key}")
    if isinstance(value, list):
        value = max(value, default=0)
    return value if isinstance(value, int) else 0


def main() -> None:
    """Answer until the other end closes."""
    die_with_parent()
    out = reserve_stdout()
    decoder = msgspec.json.Decoder(Question)
    for line in sys.stdin.buffer:
        out.write(msgspec.json.encode(answer(decoder.decode(line))) + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
