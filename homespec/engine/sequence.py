"""One generation: its tokens, its text, its limits and what drafting did for it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

import msgspec

from homespec.chat.spans import Spans
from homespec.engine.control.decision import Decision
from homespec.engine.grammar import Grammar
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal, Sampler
from homespec.engine.slots import common_prefix_length
from homespec.engine.text_stream import TextStream
from homespec.errors import ErrorInfo
from homespec.frames import DraftProgress, Generate, TokenLogprob
from homespec.stats import DraftStats
from homespec.status import RequestPhase, RequestStatus, Timings


class Sequence:
    """State of one request inside the engine; owned by the scheduler thread.

    `token_ids` holds prompt and output. While decoding, its last token has not been decoded by the target yet.
    """

    def __init__(
        self,
        request: Generate,
        prompt_ids: list[int],
        *,
        n_ctx: int,
        sampler: Sampler,
        grammar: Grammar | None = None,
        spelled_out: Mapping[int, bytes] | None = None,
    ) -> None:
        """spelled_out: control tokens that are part of the answer's text, with their spelling."""
        self.request = request
        self.token_ids = list(prompt_ids)
        self.num_prompt_tokens = len(prompt_ids)
        room = n_ctx - self.num_prompt_tokens
        self.max_output_tokens = room if request.max_tokens is None else min(request.max_tokens, room)
        self.sampler = sampler
        self.grammar = grammar
        self._spelled_out = spelled_out or {}
        self.text = TextStream(request.stop)
        self.logprobs: list[TokenLogprob] = []
        """One per output token, when they are asked for."""
        self._num_logprobs_taken = 0
        self.error: ErrorInfo | None = None
        self.finish_reason: str | None = None
        self._text_starts: list[int] = []
        """Length of the text before each output token."""
        self._drafted_text = Spans()
        """What accepted draft tokens wrote; kept when it is asked for."""
        self.slot_id: int | None = None
        self.in_order = True
        """Ran alone, and its tokens lie in the KV cache in order: what the exactness probe has measured."""
        self.num_cached_tokens = 0
        self.num_computed_tokens = 0
        """Tokens that the target's KV cache holds for this sequence."""
        self.num_emitted_tokens = 0
        """Output tokens that have been counted and sent."""
        self.stats = DraftStats()
        self.num_rounds = 0
        self.draft_s = self.verify_s = 0.0
        """Its shares of the rounds."""
        self.drafted_rounds: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        """Rounds without a draft, by reason."""
        self.last_draft_length = 0
        self.last_drafter: str | None = None
        self.decision: Decision | None = None
        """The controller's last one; None when it was not asked."""
        self.received_at = time.monotonic()
        self.started_at: float | None = None
        self.first_token_at: float | None = None
        self.finished_at: float | None = None
        self.sent_at = 0.0
        """When text was last sent to the client."""

    @property
    def id(self) -> str:
        return self.request.request_id

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def phase(self) -> RequestPhase:
        if self.slot_id is None:
            return RequestPhase.WAITING
        return RequestPhase.DECODE if self.num_pending_tokens == 1 else RequestPhase.PREFILL

    @property
    def num_pending_tokens(self) -> int:
        """Tokens that the target must still decode; 1 while decoding."""
        return len(self.token_ids) - self.num_computed_tokens

    def may_start_from(self, other: Sequence) -> bool:
        """Whether most of its prompt is that of another one, and may be shared with it."""
        request = self.request
        if not request.reuse or request.partition != other.request.partition:
            return False
        return 2 * common_prefix_length(self.token_ids, other.token_ids) > len(self.token_ids)

    @property
    def num_tokens_left(self) -> int:
        return self.max_output_tokens - self.num_output_tokens

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    def choose(self, logits: Logits, proposal: Proposal | None = None) -> int:
        """The target's next token, from its row of raw logits. Raises RequestError when the constraint fails."""
        allowed = self.grammar.allowed() if self.grammar else None
        return self.sampler.choose(logits, self.token_ids, allowed, proposal)

    def push(
        self,
        token_id: int,
        piece: bytes,
        *,
        is_end: bool,
        logprob: TokenLogprob | None = None,
        from_draft: bool = False,
    ) -> bool:
        """Take the next token; True when it ends the answer. The one place where text and tokens are cut.

        An end-of-text token is not part of the answer. A stop string beats the length cap when one token meets both;
        tokens that only spell the stop string are not part of the answer either.
        """
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()
        if is_end and (self.grammar is not None or not self.request.ignore_eos):
            return self.finish("stop")
        self._text_starts.append(len(self.text.text))
        self.token_ids.append(token_id)
        if logprob is not None:
            self.logprobs.append(msgspec.structs.replace(logprob, offset=self._text_starts[-1]))
        if self.grammar is not None:
            self.grammar.advance(token_id)
        is_stopped = self.text.push(self._spelled_out.get(token_id, piece))
        if from_draft and self.request.speculation.spans:
            self._drafted_text.add(self._text_starts[-1], len(self.text.text))
        if is_stopped:
            self._drop_tokens_of_stop()
            return self.finish("stop")
        if self.grammar is not None and self.grammar.is_complete:
            return self.finish("stop")
        if self.num_tokens_left <= 0:
            return self.finish("length")
        return False

    def take_logprobs(self) -> list[TokenLogprob]:
        """Those of tokens whose text has been taken, each once; a stop string may still take the others back."""
        end = len(self.logprobs) if self.finished else bisect_left(self._text_starts, self.text.num_taken)
        taken = self.logprobs[self._num_logprobs_taken : end]
        self._num_logprobs_taken = max(end, self._num_logprobs_taken)
        return taken

    def take_progress(self, text: str) -> DraftProgress | None:
        """What drafting did for the text that has just been taken; None when it was not asked for."""
        if not self.request.speculation.spans:
            return None
        end = self.text.num_taken
        spans = self._drafted_text.take(end - len(text), end)
        return DraftProgress(self.num_rounds, self.stats.num_accepted_tokens, spans)

    def fail(self, error: ErrorInfo) -> None:
        """End the request with an error instead of an answer."""
        self.error = error
        self.finish("error")

    def _drop_tokens_of_stop(self) -> None:
        length = len(self.text.text)
        while self._text_starts and self._text_starts[-1] >= length:
            self._text_starts.pop()
            self.token_ids.pop()
            if self.logprobs:
                self.logprobs.pop()

    def finish(self, reason: str) -> bool:
        self.finish_reason = reason
        self.finished_at = time.monotonic()
        self.text.finish()
        return True

    def add_round(self, drafter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one target pass."""
        self.num_rounds += 1
        self.last_draft_length = num_draft_tokens
        self.last_drafter = drafter if num_draft_tokens else None
        if drafter and num_draft_tokens:
            self.drafted_rounds[drafter] += 1
        self.stats.add_round(num_draft_tokens, num_accepted_tokens)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per target pass, over drafted and plain rounds alike."""
        return 1 + self.stats.num_accepted_tokens / self.num_rounds if self.num_rounds else None

    def timings(self) -> Timings:
        end = self.finished_at or time.monotonic()
        start = self.started_at or end
        first = self.first_token_at or end
        num_computed_prompt = self.num_prompt_tokens - self.num_cached_tokens
        # The first token comes out of the prompt pass: the rate counts the tokens after it.
        decode_s = end - first
        return Timings(
            prompt_n=num_computed_prompt,
            prompt_ms=(first - start) * 1000,
            prompt_per_second=_rate(num_computed_prompt, first - start),
            predicted_n=self.num_output_tokens,
            predicted_ms=decode_s * 1000,
            predicted_per_second=_rate(self.num_output_tokens - 1, decode_s),
            cache_n=self.num_cached_tokens,
            draft_n=self.stats.num_draft_tokens,
            draft_n_accepted=self.stats.num_accepted_tokens,
            draft_ms=self.draft_s * 1000,
            verify_ms=self.verify_s * 1000,
        )

    def status(self) -> RequestStatus:
        now = time.monotonic()
        return RequestStatus(
            id=self.id,
            phase=self.phase,
            slot=self.slot_id,
            num_prompt_tokens=self.num_prompt_tokens,
            num_prefilled_tokens=min(self.num_computed_tokens, self.num_prompt_tokens),
            num_cached_tokens=self.num_cached_tokens,
            num_output_tokens=self.num_output_tokens,
            age_s=now - self.received_at,
            tokens_per_second=_rate(self.num_output_tokens - 1, now - self.first_token_at)
            if self.first_token_at
            else None,
            drafter=self.last_drafter,
            num_draft_tokens=self.last_draft_length,
            acceptance_rate=self.stats.acceptance_rate,
            acceptance_length=self.acceptance_length,
            decision=self.decision.text if self.decision else None,
        )


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count > 0 and seconds > 0 else None
