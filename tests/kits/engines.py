"""An engine in this process, driven step by step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homespec.engine.build import build_drafter, build_engine
from homespec.engine.drafters.drafter import Drafter
from homespec.engine.sequence import Sequence as EngineSequence
from homespec.frames import (
    ChatPrompt,
    Delta,
    EngineSettings,
    Finished,
    Frame,
    Generate,
    Happened,
    Sampling,
    Speculation,
    TextPrompt,
    TokenPrompt,
)
from homespec.status import DrafterStatus, SpeculationReport

SCRIPTED = "scripted"
"""Path of a draft model that a test puts into the roster itself."""

_MAX_STEPS = 20_000
_DEFAULTS = {
    "n_ctx": 512,
    # Two processes of the suite share two cores: engines that want both would wait for each other.
    "threads": 1,
    "exactness": "fast",
    "kv_type": "bf16",
    # A target that drafts for itself is right all the time only with keys that are rounded alike.
    "draft_kv_type": "bf16",
    "controller": False,
    "max_draft_tokens": 4,
}
_ids = itertools.count(1)


def ask(
    prompt: str | Sequence[int] | list[dict[str, Any]],
    *,
    mode: str = "off",
    max_draft_tokens: int | None = None,
    acceptance: str | None = None,
    max_tokens: int | None = 32,
    temperature: float = 0.0,
    seed: int = 7,
    sampling: dict[str, Any] | None = None,
    **fields: Any,
) -> Generate:
    """A request: text, token ids or chat messages; greedy and without a drafter unless told otherwise."""
    return Generate(
        request_id=f"r{next(_ids)}",
        prompt=_prompt(prompt),
        sampling=Sampling(temperature=temperature, seed=seed, **(sampling or {})),
        speculation=Speculation(mode, max_draft_tokens, acceptance),
        max_tokens=max_tokens,
        **fields,
    )


def chat(text: str) -> list[dict[str, Any]]:
    """One user message."""
    return [{"role": "user", "content": text}]


@dataclass(frozen=True)
class Answer:
    """What one request came to."""

    sequence: EngineSequence
    finished: Finished
    deltas: list[Delta]

    @property
    def token_ids(self) -> list[int]:
        """Output only."""
        return self.sequence.token_ids[self.sequence.num_prompt_tokens :]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas) + self.finished.text

    @property
    def speculation(self) -> SpeculationReport:
        return self.finished.speculation


class Driver:
    """One engine and the frames it has sent."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.frames: list[Frame] = []
        self.load_requests = 0
        self.engine = build_engine(settings, send=self.frames.append, load=self._load)
        self.scheduler = self.engine.scheduler
        self.roster = self.engine.roster
        self.context = self.engine.context

    def load_drafter(self) -> None:
        """Load the draft model of the settings, as the loader thread does."""
        self.roster.loaded(build_drafter(self.settings, self.context))

    def use_drafter(self, drafter: Drafter) -> None:
        """Put a drafter in the place of the draft model."""
        self.roster.loaded(drafter)

    def submit(self, request: Generate) -> EngineSequence:
        sequence = self.engine.sequence(request)
        self.scheduler.submit(sequence)
        return sequence

    def drain(self) -> None:
        """Step until there is no work left."""
        for _ in range(_MAX_STEPS):
            if not self.scheduler.busy:
                return
            self.scheduler.step()
        raise AssertionError(f"the scheduler is still busy after {_MAX_STEPS} steps")

    def run(self, *requests: Generate) -> list[Answer]:
        """Submit all at once; their answers in the same order."""
        sequences = [self.submit(request) for request in requests]
        self.drain()
        return [self.answer(sequence) for sequence in sequences]

    def answer(self, sequence: EngineSequence) -> Answer:
        """What a finished sequence has sent."""
        [finished] = [f for f in self.frames if isinstance(f, Finished) and f.request_id == sequence.id]
        deltas = [f for f in self.frames if isinstance(f, Delta) and f.request_id == sequence.id]
        return Answer(sequence, finished, deltas)

    def forget_prefixes(self) -> None:
        """Empty the KV cache; nothing may be running."""
        while self.scheduler._slots.evict_idle():
            pass

    def drafter_status(self, name: str = "draft") -> DrafterStatus:
        return next(status for status in self.roster.statuses() if status.name == name)

    def events(self) -> list[str]:
        return [frame.text for frame in self.frames if isinstance(frame, Happened)]

    def kv_length(self, slot_id: int) -> int:
        """Tokens in the KV cache of a slot, as llama.cpp counts them."""
        return self.context.kv_length(slot_id)

    def close(self) -> None:
        self.roster.shutdown()
        self.context.close()
        self.context.model.close()

    def _load(self) -> None:
        self.load_requests += 1


@contextmanager
def running(model: Path, *, draft: Path | str | None = None, **settings: Any) -> Iterator[Driver]:
    """An engine on `model`, closed at the end. A draft model is loaded at once, but for `SCRIPTED`."""
    driver = Driver(
        EngineSettings(
            model_path=str(model),
            model_id="test",
            draft_path=None if draft is None else str(draft),
            **{**_DEFAULTS, **settings},
        )
    )
    try:
        if driver.load_requests and draft != SCRIPTED:
            driver.load_drafter()
        yield driver
    finally:
        driver.close()


def _prompt(prompt: str | Sequence[int] | list[dict[str, Any]]) -> ChatPrompt | TextPrompt | TokenPrompt:
    if isinstance(prompt, str):
        return TextPrompt(prompt)
    if prompt and isinstance(prompt[0], dict):
        return ChatPrompt(prompt)  # type: ignore[arg-type]
    return TokenPrompt(list(prompt))  # type: ignore[arg-type]
