"""Making the copy: room on the disk, a child that writes, a rename at the end, and what the copy is good for."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from homespec.derive.child import run_child
from homespec.derive.prompts import PROMPTS
from homespec.derive.recipe import Recipe
from homespec.errors import DeriveError, ModelError
from homespec.folders import expanded
from homespec.program import program
from homespec.split import parts
from homespec.store.companions import SOURCE_KEY, source_mark
from homespec.store.model_file import check
from homespec.units import MIB, format_bytes, format_rate, format_ratio

NUM_DRAFT_TOKENS = 4
NUM_ANSWER_TOKENS = 64
LARGEST_SHARE = 0.95
"""Of the model's size; a copy larger than that saves nothing worth drafting for."""
_SPARE_BYTES = 64 * MIB
"""Left free on the disk: a full one harms more than the missing copy."""


def derive(model: Path, recipe: Recipe, *, output: Path | None, force: bool, num_prompts: int = len(PROMPTS)) -> Path:
    """Write the copy, say how big it is and, on the given number of prompts, how often it is right.

    Raises DeriveError, ModelNotFound or ModelCorrupt.
    """
    model = parts(model.absolute())[0]
    check(model)
    target = expanded(output).absolute() if output else recipe.path_beside(model)
    _check_output(model, target, force=force)
    plan = run_child("plan", _options(model, recipe))
    _check_room(target.parent, plan["size_bytes"], plan["model_bytes"])
    _write(model, recipe, target)
    size, whole = target.stat().st_size, sum(part.stat().st_size for part in parts(model))
    print(f"copy               {target}")
    print(f"size               {format_bytes(size)}, {size / whole:.0%} of the model's {format_bytes(whole)}")
    if num_prompts and not _print_acceptance(model, target, PROMPTS[:num_prompts]):
        print("worth it           no, it is slower with it: remove the copy, or make it of other bits or layers")
        return target
    flags = [] if target == recipe.path_beside(model) else ["--draft", str(target)]
    print(f"use it             {shlex.join([program(), 'serve', str(model), *flags])}")
    return target


def _check_output(model: Path, target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise DeriveError(f"--output {target} is a directory; name a file")
    if not target.parent.is_dir():
        raise DeriveError(f"{target.parent} is not a directory; make it, or pass another --output")
    if target.exists() and any(map(target.samefile, parts(model))):
        raise DeriveError(f"--output {target} is the model itself; name another file")
    if target.exists() and not force:
        raise DeriveError(f"{target} is there already; pass --force to replace it, or another --output")
    if not os.access(target.parent, os.W_OK):
        raise DeriveError(f"{target.parent} cannot be written to; pass another --output")


def _check_room(folder: Path, size_bytes: int, model_bytes: int) -> None:
    if size_bytes > LARGEST_SHARE * model_bytes:
        raise DeriveError(
            f"the copy would have {format_bytes(size_bytes)} and the model has {format_bytes(model_bytes)}: a drafter "
            "must be smaller than its target; use a smaller type or keep fewer layers"
        )
    free = shutil.disk_usage(folder).free
    if free < size_bytes + _SPARE_BYTES:
        raise DeriveError(
            f"{folder} has {format_bytes(free)} free and the copy needs {format_bytes(size_bytes)} and "
            f"{format_bytes(_SPARE_BYTES)} to spare; make room, or pass another --output"
        )


def _write(model: Path, recipe: Recipe, target: Path) -> None:
    """Under another name until it is whole and on the disk: nobody ever finds half a model."""
    _sweep(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    keys = {SOURCE_KEY: source_mark(model)}
    try:
        run_child("quantize", {**_options(model, recipe), "output": str(partial), "keys": keys}, progress=_show)
        check(partial)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    except ModelError as error:
        raise DeriveError(f"llama.cpp wrote a copy that is not whole, and it was removed: {error}") from error
    except DeriveError as error:
        if "iostream error" not in str(error):
            raise
        # All that the library says of a disk that is full by now, or a limit on the size of files.
        free = format_bytes(shutil.disk_usage(target.parent).free)
        raise DeriveError(
            f"{target} cannot be written to its end; {target.parent} has {free} free: make room"
        ) from error
    except OSError as error:
        raise DeriveError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        _end_line()
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _sweep(target: Path) -> None:
    """Remove what was left of this copy by a process that was killed."""
    for partial in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        pid = partial.suffixes[-2].removeprefix(".")
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with contextlib.suppress(OSError):
                partial.unlink()


def _print_acceptance(model: Path, copy: Path, prompts: Sequence[str]) -> bool:
    """Whether the copy made answers faster."""
    try:
        found = run_child(
            "measure",
            {
                "model": str(model),
                "draft": str(copy),
                "prompts": prompts,
                "max_tokens": NUM_ANSWER_TOKENS,
                "max_draft_tokens": NUM_DRAFT_TOKENS,
            },
            progress=_show,
        )
    except DeriveError as error:
        raise DeriveError(f"{copy} is written, but cannot be measured: {error}") from error
    finally:
        _end_line()
    print(
        f"acceptance         {format_ratio(found['acceptance_rate'])} of {found['drafted']} drafted tokens, "
        f"{found['acceptance_length']:.2f} tokens per pass at D = {NUM_DRAFT_TOKENS}"
    )
    print(f"speed              {format_rate(found['drafted_tps'])} with it, {format_rate(found['plain_tps'])} without")
    return bool(found["drafted_tps"] > found["plain_tps"])


def _options(model: Path, recipe: Recipe) -> dict[str, Any]:
    files = [str(part) for part in parts(model)]
    return {"model": str(model), "parts": files, "quant": recipe.quant, "layers": recipe.layers}


def _show(share: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{share:4.0%}", end="", file=sys.stderr, flush=True)


def _end_line() -> None:
    if sys.stderr.isatty():
        print("\r    \r", end="", file=sys.stderr, flush=True)
