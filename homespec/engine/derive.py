"""Jobs of `homespec derive`, each in a process of its own: `python -m homespec.engine.derive JOB OPTIONS`.

OPTIONS is a JSON object; what happens goes to stdout, one JSON object a line. A process of its own, because the library
may abort, and that is an answer too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from homespec.engine.build import Engine, build_drafter, build_engine
from homespec.engine.layer_cut import Trunk, cut
from homespec.engine.llama.gguf import open_header
from homespec.engine.llama.model import Model
from homespec.engine.llama.quantize import quantize, share_done
from homespec.engine.sequence import Sequence
from homespec.engine.threads import default_threads
from homespec.errors import DeriveError, HomespecError
from homespec.frames import ChatPrompt, EngineSettings, Frame, Generate, Sampling, Speculation, TextPrompt
from homespec.parent import die_with_parent, reserve_stdout
from homespec.stats import DraftStats

_PROGRESS_INTERVAL_S = 0.2
_N_CTX = 1024


def plan(options: dict[str, Any]) -> dict[str, Any]:
    """Bytes of the tensors of the copy and of the model. Raises DeriveError for a model that needs another drafter."""
    path = Path(options["model"])
    size = quantize(path, Path(), dry_run=True, **_what(options))
    return {"size_bytes": size, "model_bytes": sum(_tensor_bytes(Path(part)) for part in options["parts"])}


def _tensor_bytes(path: Path) -> int:
    with open_header(path) as header:
        return sum(tensor.size_bytes for tensor in header.tensors())


def make(options: dict[str, Any]) -> dict[str, Any]:
    """Write the copy."""
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(
            quantize,
            Path(options["model"]),
            Path(options["output"]),
            n_threads=default_threads(),
            **_what(options),
        )
        while wait((job,), _PROGRESS_INTERVAL_S).not_done:
            _say({"progress": share_done()})
        return {"size_bytes": job.result()}


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """Answer each prompt without and with the copy: how often it is right, and what that does to the speed."""
    engine = _engine(options)
    plain, drafted = _Tally(), _Tally()
    prompts = options["prompts"]
    _answer(engine, prompts[0], "draft", options | {"max_tokens": 8})  # what is loaded lazily is loaded now
    for index, prompt in enumerate(prompts):
        for mode, tally in (("off", plain), ("draft", drafted)):
            tally.add(_answer(engine, prompt, mode, options))
        _say({"progress": (index + 1) / len(prompts)})
    return {
        "drafted": drafted.stats.num_draft_tokens,
        "acceptance_rate": drafted.stats.acceptance_rate,
        "acceptance_length": 1 + drafted.stats.num_accepted_tokens / drafted.num_rounds,
        "plain_tps": plain.tokens_per_second,
        "drafted_tps": drafted.tokens_per_second,
    }


class _Tally:
    """Sums over answers."""

    def __init__(self) -> None:
        self.stats = DraftStats()
        self.num_tokens = self.num_rounds = 0
        self.seconds = 0.0

    def add(self, sequence: Sequence) -> None:
        self.stats.add(sequence.stats)
        self.num_tokens += max(0, sequence.num_output_tokens - 1)  # the first one comes out of the prompt pass
        self.num_rounds += sequence.num_rounds
        self.seconds += sequence.timings().predicted_ms / 1000

    @property
    def tokens_per_second(self) -> float | None:
        return self.num_tokens / self.seconds if self.seconds else None


def _engine(options: dict[str, Any]) -> Engine:
    settings = EngineSettings(
        model_path=options["model"],
        model_id="target",
        draft_path=options["draft"],
        n_ctx=_N_CTX,
        slots=1,
        cached_prefixes=0,
        exactness="fast",
    )
    engine = build_engine(settings, send=_ignore, load=lambda: None)
    engine.roster.loaded(build_drafter(settings, engine.context))
    return engine


def _answer(engine: Engine, prompt: str, mode: str, options: dict[str, Any]) -> Sequence:
    request = Generate(
        request_id=mode,
        prompt=ChatPrompt([{"role": "user", "content": prompt}]) if engine.status.chat_template else TextPrompt(prompt),
        sampling=Sampling(temperature=0.0),
        speculation=Speculation(mode, options["max_draft_tokens"]),
        max_tokens=options["max_tokens"],
        ignore_eos=True,
        reuse=False,  # both read all of the prompt, and the copy reads it along
    )
    sequence = engine.sequence(request)
    engine.scheduler.submit(sequence)
    while engine.scheduler.busy:
        engine.scheduler.step()
    return sequence


def _what(options: dict[str, Any]) -> dict[str, Any]:
    """The quantiser's arguments. Raises DeriveError for a model that the copy could not draft for."""
    model = Model(Path(options["model"]), n_gpu_layers=0)
    try:
        if model.has_encoder or model.is_recurrent:
            raise DeriveError(f"architecture {model.architecture!r} cannot take tokens back, which drafting needs")
        what = cut(options["layers"], _trunk(model, options["parts"]))
        keys = {**what.keys, **options.get("keys", {})}
        return {"quant": options["quant"], "dropped_layers": what.dropped, "keys": keys}
    finally:
        model.close()


def _trunk(model: Model, parts: list[str]) -> Trunk:
    prefix = f"{model.architecture}."
    tensors: set[str] = set()
    for part in parts:
        with open_header(Path(part)) as header:
            tensors.update(tensor.name for tensor in header.tensors())
    with open_header(model.path) as header:
        values = {key: header.get(key) for key in header.keys() if key.startswith(prefix)}  # noqa: SIM118
    dense = values.get(f"{prefix}leading_dense_block_count")
    return Trunk(
        architecture=model.architecture,
        n_layer=model.n_layer,
        num_mtp_layers=model.num_mtp_layers,
        num_leading_dense=dense if isinstance(dense, int) else 0,
        tensors=tensors,
        arrays={key: len(value) for key, value in values.items() if isinstance(value, list)},
    )


def _ignore(_frame: Frame) -> None: ...


def _say(message: dict[str, Any]) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        os._exit(0)  # the command is gone: nobody is left to give the copy its name


JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"plan": plan, "quantize": make, "measure": measure}


def main(job: str, options: str) -> None:
    """Say what came of it; an error raised on purpose is a result as well."""
    die_with_parent()
    sys.stdout = TextIOWrapper(reserve_stdout())
    try:
        _say(JOBS[job](json.loads(options)))
    except HomespecError as error:
        _say({"error": str(error)})


if __name__ == "__main__":
    main(*sys.argv[1:])
