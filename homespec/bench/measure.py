"""Asks one prompt on one side, and measures what comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec

from homespec.bench.patience import patiently
from homespec.bench.prompts import Prompt
from homespec.bench.server_name import OURS, Remedies, named
from homespec.bench.sides import Side
from homespec.bench.trial import Trial, Turn
from homespec.client.answer import Answer
from homespec.client.failures import StreamCutError
from homespec.client.http import Client
from homespec.errors import RequestError
from homespec.stats import DraftStats
from homespec.status import DraftState, SpeculationReport

CountTokens = Callable[[str], Awaitable[int]]
_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
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
        return {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            **_PENALTIES,
            **chain,
        }


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A side and where it answers."""

    side: Side
    client: Client
    fields: dict[str, Any]
    """What its requests carry beside the sampler and the messages."""
    remedies: Remedies = OURS

    @classmethod
    def of_daemon(cls, side: Side, client: Client, run_id: str) -> Endpoint:
        """Each side has a cache of its own, which knows nothing of other sides and of earlier runs."""
        return cls(side, client, {"speculative": side.speculative(), "cache_salt": f"bench-{run_id}-{side.name}"})


@dataclass(slots=True)
class Asker:
    """Has conversations, and counts the requests that they took."""

    count_tokens: CountTokens
    """The daemon's tokenizer, for the answers of all sides."""
    num_answering: Counter[str] = field(default_factory=Counter)
    """Requests that began to be answered, per side."""

    async def ask(self, endpoint: Endpoint, prompt: Prompt, sampler: Sampler) -> Trial:
        """Each turn follows the side's own answers. Raises PromptRefused, PromptFailed, and what the clients raise."""
        messages: list[dict[str, str]] = []
        turns = []
        for text in prompt.turns:
            messages.append({"role": "user", "content": text})
            with named(endpoint.client, endpoint.remedies):
                answer, again = await patiently(lambda: self._stream(endpoint, messages, sampler))
            turns.append(await self._turn(answer, again=again))
            # As chats do: thoughts are not part of the conversation.
            messages.append({"role": "assistant", "content": answer.content or answer.text})
        return Trial(prompt.question_id, prompt.category, endpoint.side.name, tuple(turns))

    async def _stream(self, endpoint: Endpoint, messages: Sequence[dict[str, str]], sampler: Sampler) -> Answer:
        body = {
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            **sampler.fields(),
            **endpoint.fields,
        }
        answer, has_begun = Answer(), False
        try:
            async with aclosing(endpoint.client.chat(body)) as chunks:
                async for data in chunks:
                    if not has_begun:
                        self.num_answering[endpoint.side.name] += 1
                        has_begun = True
                    answer.add(data)
        except msgspec.DecodeError as error:
            raise StreamCutError(f"something came that is not a chat chunk: {error}") from error
        except RequestError as error:
            if not answer.text:
                raise
            raise StreamCutError(f"the answer ended with an error: {error}") from error
        return answer

    async def _turn(self, answer: Answer, *, again: bool) -> Turn:
        report, usage = answer.speculation, answer.usage
        cached = _count(answer, "cache_n", usage.cached_tokens if usage else None)
        # llama-server's count leaves out what was cached, OpenAI's holds it.
        whole = usage.prompt_tokens if usage else None
        computed = _count(answer, "prompt_n", None if whole is None or cached is None else whole - cached)
        return Turn(
            text=answer.text,
            num_tokens=await self.count_tokens(answer.text),
            num_first_tokens=await self.count_tokens(answer.first_text),
            time_to_first_token_s=answer.time_to_first_token_s,
            decode_s=(answer.time_to_last_token_s or 0) - (answer.time_to_first_token_s or 0),
            finish_reason=answer.finish_reason,
            num_generated=_count(answer, "predicted_n", usage.completion_tokens if usage else None),
            num_computed_prompt=None if cached is None else computed,
            num_cached_prompt=cached,
            asked_again=again,
            rounds=report.rounds if report else None,
            stats=_stats(report) if report else DraftStats(),
            drafters=dict(report.drafters) if report else {},
            reason=_why_not(report) if report else "",
            draft_ms=_number(answer.reported.get("draft_ms")),
            verify_ms=_number(answer.reported.get("verify_ms")),
        )


def _why_not(report: SpeculationReport) -> str:
    """Why drafting is in the state it is in; of one that could draft and did not, what that means."""
    if report.state is DraftState.READY and not report.drafted:
        return f"{report.reason}, and no draft was found that should pay"
    return report.reason


def _stats(report: SpeculationReport) -> DraftStats:
    """Counts again, out of the shares that the server reports."""
    num_drafts = sum(report.drafters.values())
    per_position = [round(share * num_drafts) for share in report.per_position]
    return DraftStats(num_drafts, report.drafted, report.accepted, per_position)


def _count(answer: Answer, name: str, otherwise: int | None) -> int | None:
    """Of the server's timings, in llama-server's words; else what it said in OpenAI's."""
    value = _number(answer.reported.get(name))
    return otherwise if value is None else int(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
