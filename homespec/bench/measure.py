"""Asks one prompt on one side, and measures what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from homespec.bench.prompts import Prompt
from homespec.bench.sides import Side
from homespec.bench.trial import Trial, Turn
from homespec.client.answer import Answer
from homespec.client.failures import StreamCutError, UnreachableError, describe
from homespec.client.http import Client
from homespec.errors import RequestError
from homespec.stats import DraftStats
from homespec.status import SpeculationReport

CountTokens = Callable[[str], Awaitable[int]]
_SAMPLER = {"top_k": 40, "top_p": 0.95, "min_p": 0.05}
"""Our defaults, said aloud: other servers have others."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """The same for all sides."""

    max_tokens: int
    temperature: float
    seed: int

    def fields(self) -> dict[str, Any]:
        chain = _SAMPLER if self.temperature else {}
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed, **chain}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A side and where it answers."""

    side: Side
    client: Client
    fields: dict[str, Any]
    """What its requests carry beside the sampler and the messages."""

    @classmethod
    def of_daemon(cls, side: Side, client: Client, run_id: str) -> Endpoint:
        """Each side has a cache of its own, which knows nothing of other sides and of earlier runs."""
        return cls(side, client, {"speculative": side.speculative(), "cache_salt": f"bench-{run_id}-{side.name}"})


@contextmanager
def named(client: Client) -> Iterator[None]:
    """Errors of the network say which server they are about."""
    try:
        yield
    except UnreachableError as error:
        raise UnreachableError(f"nothing answers at {client.url}: {error}; start it, or pass another URL") from error
    except StreamCutError as error:
        raise StreamCutError(f"{client.url}: {error}") from error
    except RequestError as error:
        if error.info.status != 401:
            raise
        raise RequestError(f"{client.url}: {describe(error)}", status=401) from error


async def ask(endpoint: Endpoint, prompt: Prompt, sampler: Sampler, count_tokens: CountTokens) -> Trial:
    """Have the conversation; each turn follows the side's own answers. Raises what the clients raise."""
    messages: list[dict[str, str]] = []
    turns = []
    for text in prompt.turns:
        messages.append({"role": "user", "content": text})
        answer = await _stream(endpoint, messages, sampler)
        turns.append(_turn(answer, await count_tokens(answer.text)))
        messages.append({"role": "assistant", "content": answer.text})
    return Trial(prompt.question_id, prompt.category, endpoint.side.name, tuple(turns))


async def _stream(endpoint: Endpoint, messages: Sequence[dict[str, str]], sampler: Sampler) -> Answer:
    body = {"messages": messages, "stream": True, **sampler.fields(), **endpoint.fields}
    answer = Answer()
    with named(endpoint.client):
        try:
            async with aclosing(endpoint.client.chat(body)) as chunks:
                async for data in chunks:
                    answer.add(data)
        except msgspec.DecodeError as error:
            raise StreamCutError(f"something came that is not a chat chunk: {error}") from error
    return answer


def _turn(answer: Answer, num_tokens: int) -> Turn:
    report = answer.speculation
    return Turn(
        text=answer.text,
        num_tokens=num_tokens,
        time_to_first_token_s=answer.time_to_first_token_s,
        decode_s=(answer.time_to_last_token_s or 0) - (answer.time_to_first_token_s or 0),
        finish_reason=answer.finish_reason,
        num_generated=answer.timings.predicted_n if answer.timings else None,
        rounds=report.rounds if report else None,
        stats=_stats(report) if report else DraftStats(),
        drafters=dict(report.drafters) if report else {},
        reason=report.reason if report else "",
        draft_ms=_number(answer.reported.get("draft_ms")),
        verify_ms=_number(answer.reported.get("verify_ms")),
    )


def _stats(report: SpeculationReport) -> DraftStats:
    """Counts again, out of the shares that the server reports."""
    num_drafts = sum(report.drafters.values())
    per_position = [round(share * num_drafts) for share in report.per_position]
    return DraftStats(num_drafts, report.drafted, report.accepted, per_position)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
