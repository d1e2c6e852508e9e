"""What a bench is asked to do, checked before anything runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import ConfigError
from homespec.stats import MAX_DRAFT_TOKENS

MAX_TOKENS, PER_CATEGORY = 128, None
AGAINST_TIMEOUT_S = 600.0
"""The prompt of a small box takes minutes; whoever says nothing for longer has most likely hung."""
QUICK_MAX_TOKENS, QUICK_PER_CATEGORY = 64, 5
STDOUT = "-"


@dataclass(frozen=True, slots=True)
class Options:
    """Of `homespec bench`."""

    url: str
    """Of a running daemon; not used when `serve` is set."""
    serve: tuple[str, ...] = ()
    """Arguments of a daemon to be started for the bench."""
    api_key: str | None = None
    against: str | None = None
    """Another OpenAI server."""
    against_key: str | None = None
    against_model: str | None = None
    """None: the only one that it lists."""
    against_timeout_s: float = AGAINST_TIMEOUT_S
    """Longest silence within an answer of that server. Ours watches over itself."""
    drafters: tuple[str, ...] = ("auto",)
    max_draft_tokens: int | None = None
    sweep: tuple[int, ...] = ()
    categories: tuple[str, ...] = ()
    prompts: Path | None = None
    per_category: int | None = PER_CATEGORY
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    seed: int = 1
    json: str | None = None
    """A path, or `-` for stdout."""
    html: Path | None = None

    def check(self) -> None:
        """Raise ConfigError for what could only fail later, after minutes of measuring."""
        if self.sweep and self.max_draft_tokens is not None:
            raise ConfigError("--sweep and --max-draft-tokens both say D; leave one of them out")
        if self.against_model is not None and self.against is None:
            raise ConfigError(
                f"--against-model {self.against_model!r} names a model of another server; add --against URL"
            )
        if self.max_draft_tokens is not None:
            _check_draft_length(self.max_draft_tokens, "--max-draft-tokens")
        if len(set(self.drafters)) < len(self.drafters):
            raise ConfigError(f"--drafter names one twice: {', '.join(self.drafters)}")
        if self.serve[-2:] == ("--draft", "off") and set(self.drafters) != {"off"}:
            named = ", ".join(self.drafters)
            raise ConfigError(
                f"--draft off never drafts: {named} would be plain; use --draft auto for what needs no file"
            )
        for path in (self.html, None if self.json in (None, STDOUT) else Path(str(self.json))):
            if path is not None:
                _check_writable(path)


def parse_sweep(text: str) -> tuple[int, ...]:
    """`D=0,1,2,3` or `0,1,2,3`, in rising order without repeats. Raises ConfigError."""
    try:
        limits = {int(part) for part in text.removeprefix("D=").split(",")}
    except ValueError as error:
        raise ConfigError(f"--sweep {text!r} is not a list of D; write for example D=0,1,2,3,5,7,11,15") from error
    for limit in limits:
        _check_draft_length(limit, "--sweep")
    if limits == {0}:
        raise ConfigError("--sweep D=0 compares nothing: plain is always there; name a D above 0")
    return tuple(sorted(limits))


def split_names(text: str | None) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _check_draft_length(limit: int, flag: str) -> None:
    if not 0 <= limit <= MAX_DRAFT_TOKENS:
        raise ConfigError(f"{flag}: D = {limit} is not between 0 and {MAX_DRAFT_TOKENS}")


def _check_writable(path: Path) -> None:
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"{path} cannot be written; name a file in a folder that exists")
