"""What is known about each model of the stores without loading it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from homespec.errors import ModelError
from homespec.split import parts
from homespec.store.finds import Find, find_all
from homespec.store.model_file import check_start
from homespec.store.places import size_at
from homespec.store.shards import read_parts
from homespec.units import format_bytes, one_line

_SHOWN_DRAFTERS = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One model. None: the file does not say, or is broken."""

    name: str
    store: str
    path: Path
    size_bytes: int
    architecture: str | None = None
    quant: str | None = None
    n_ctx_train: int | None = None
    n_vocab: int | None = None
    vocabulary: str | None = None
    """Digest of the token texts."""
    fault: str | None = None
    """Why it cannot be served."""

    def can_draft_for(self, target: Entry) -> bool:
        """Same token texts and smaller. `homespec pair` looks closer."""
        return (
            self.vocabulary is not None
            and self.vocabulary == target.vocabulary
            and self.fault is None
            and self.size_bytes < target.size_bytes
        )


def entries(models_dir: Path | None = None) -> tuple[Entry, ...]:
    """Every model of every store, by name."""
    return tuple(sorted(map(read_entry, find_all(models_dir)), key=lambda entry: (entry.name.lower(), entry.store)))


def read_entry(found: Find) -> Entry:
    """Look into the file. A broken one is an entry with its fault."""
    size = sum(size_at(path) for path in parts(found.path))
    try:
        check_start(found.path)
        first, *_ = read_parts(found.path)
    except ModelError as error:
        return Entry(found.name, found.store, found.path, size, fault=one_line(str(error)))
    fault = None
    if found.expected_bytes not in (None, size):
        fault = f"{found.path} has {size} bytes, {found.store} expects {found.expected_bytes}; fetch it again there"
    return Entry(
        found.name,
        found.store,
        found.path,
        size,
        first.architecture,
        first.quant,
        first.n_ctx_train,
        first.n_vocab,
        first.vocabulary,
        fault,
    )


def drafters_for(target: Entry, known: Iterable[Entry]) -> tuple[Entry, ...]:
    """Models that can draft for `target`, the smallest first."""
    return tuple(sorted((each for each in known if each.can_draft_for(target)), key=lambda each: each.size_bytes))


def as_table(known: tuple[Entry, ...]) -> str:
    """Columns for people; faults below."""
    head = ("NAME", "ARCHITECTURE", "QUANT", "CONTEXT", "SIZE", "STORE", "DRAFTERS THAT MATCH")
    rows = [head, *(_row(entry, known) for entry in known)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *(f"! {one_line(entry.fault)}" for entry in known if entry.fault)])


def as_records(known: tuple[Entry, ...]) -> list[dict[str, Any]]:
    """For --json."""
    return [
        {**asdict(entry), "path": str(entry.path), "drafters": [each.name for each in drafters_for(entry, known)]}
        for entry in known
    ]


def _row(entry: Entry, known: tuple[Entry, ...]) -> tuple[str, ...]:
    drafters = [each.name for each in drafters_for(entry, known)]
    more = f" and {len(drafters) - _SHOWN_DRAFTERS} more" if len(drafters) > _SHOWN_DRAFTERS else ""
    return (
        one_line(entry.name),
        one_line(entry.architecture or "?"),
        entry.quant or "?",
        "?" if entry.n_ctx_train is None else str(entry.n_ctx_train),
        format_bytes(entry.size_bytes),
        entry.store,
        one_line(", ".join(drafters[:_SHOWN_DRAFTERS]) + more) or "-",
    )
