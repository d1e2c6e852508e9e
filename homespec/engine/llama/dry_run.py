"""Sizes of a model and its context without loading it: llama.cpp plans its buffers, the header tells the weights.

The model is loaded with `no_alloc`, so nothing but the vocabulary is read, and the context is made with the parameters
of the real one. llama.cpp then logs compute buffers and the size of the KV cache as they will be; weights it logs as
zero, so they are summed from the header, and the growth of the output buffer it never logs, so that is a formula.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from homespec.engine.llama.context import Context
from homespec.engine.llama.log import buffers_in
from homespec.engine.llama.weights import Part, device_of, output_device, weights_of
from homespec.footprint import HOST, Footprint, Shares
from homespec.frames import allocated_ctx
from homespec.units import MIB

_FLOAT_BYTES = 4

_KV_LAYER = re.compile(r"llama_kv_cache: layer\s+\d+: dev = (\S+)")
_KV_SIZE = re.compile(r"llama_kv_cache: size =\s*([\d.]+) MiB")


def output_bytes(
    *,
    n_vocab: int,
    n_outputs: int,
    n_batch: int = 0,
    n_embd: int = 0,
    num_taps: int = 0,
    nextn_rows: int = 0,
    embeddings: bool = False,
    samplers: bool = False,
) -> int:
    """Bytes of the host's output buffer once a call has asked for `n_outputs` rows (llama_context::output_reserve).

    num_taps: layers whose inputs are handed out, `n_batch` rows of `n_embd` each. nextn_rows: rows of the hidden state
    behind the last layer; `n_batch` of them when they are not masked.
    """
    floats = n_vocab * n_outputs + n_embd * (n_batch * num_taps + nextn_rows)
    if embeddings:
        floats += n_embd * n_outputs
    if samplers:
        floats += (3 * n_vocab + 1) * n_outputs  # probabilities, logits and candidates, and the token itself
    return _FLOAT_BYTES * floats


def with_taps(drafter: Footprint, target: Context, *, num_taps: int) -> Footprint:
    """The drafter with what the target spends on handing hidden states out: only this drafter wants them."""
    n_batch, n_embd = target.params.n_batch, target.model.n_embd
    handed_out = output_bytes(n_vocab=0, n_outputs=0, n_batch=n_batch, n_embd=n_embd, num_taps=num_taps)
    graph = tap_bytes(num_taps=num_taps, n_ubatch=n_batch, n_embd=n_embd)
    device = output_device(target.model)
    devices = dict(drafter.devices)
    devices[HOST] = drafter.on(HOST) + Shares(output_bytes=handed_out)
    devices[device] = devices.get(device, Shares()) + Shares(compute_bytes=graph)
    return msgspec.structs.replace(drafter, devices=devices, growth_bytes=drafter.growth_bytes + handed_out + graph)


def tap_bytes(*, num_taps: int, n_ubatch: int, n_embd: int) -> int:
    """What the compute buffer grows by when layer inputs are handed out; a context is made before they are."""
    return _FLOAT_BYTES * num_taps * n_ubatch * n_embd


def footprint(context: Context, *, mmap: bool, part: Part = Part.TRUNK) -> Footprint:
    """What that part of a dry context's model and the context itself would take."""
    shares: dict[str, Shares] = defaultdict(Shares)
    weights = weights_of(context.model, mmap=mmap, part=part)
    for device, size in weights.by_device.items():
        shares[device] += Shares(weights_bytes=size)
    for device, size in _kv_bytes(context.log).items():
        shares[device] += Shares(kv_bytes=size)
    for buffer, kind, size in buffers_in(context.log):
        if kind == "RS":
            shares[device_of(buffer)] += Shares(kv_bytes=size)
        elif kind == "compute":
            shares[device_of(buffer)] += Shares(compute_bytes=size)
    first = _output(context, context.params.n_seq_max)
    # The states that heads draft from; see Taps.
    full = _output(context, context.n_outputs_max, nextn_rows=context.params.n_batch if context.params.taps else 0)
    shares[HOST] += Shares(output_bytes=full)
    return Footprint(
        dict(shares),
        n_ctx=allocated_ctx(context.n_ctx),
        kv_type=context.params.kv_type,
        growth_bytes=full - first,
        reclaimable_bytes=weights.reclaimable_bytes,
    )


def _kv_bytes(log: Iterable[str]) -> Mapping[str, int]:
    """Each cache logs its layers with their devices, then its size; a model with a sliding window has two."""
    sizes: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    for line in log:
        if found := _KV_LAYER.search(line):
            layers[device_of(found[1])] += 1
        elif found := _KV_SIZE.search(line):
            for device, count in layers.items():
                sizes[device] += int(float(found[1]) * MIB * count / layers.total())
            layers.clear()
    return sizes


def _output(context: Context, rows: int, *, nextn_rows: int = 0) -> int:
    model = context.model
    return output_bytes(
        n_vocab=model.vocab.n_vocab,
        n_outputs=rows,
        n_embd=model.n_embd_out,
        nextn_rows=nextn_rows,
        embeddings=context.params.gives_states,
    )
