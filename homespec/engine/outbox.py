"""What the daemon hears of an answer: its text as it comes, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from homespec.engine.llama.vocab import Vocab
from homespec.engine.sequence import Sequence
from homespec.frames import Delta, Finished, Frame, Refused, TokenLogprob
from homespec.status import SpeculationReport

DELTA_INTERVAL_S = 0.02
"""Text of a stream is sent at most this often. Whatever it passes through on its way to the client takes time from the
same few cores that decode."""


class Outbox:
    """Used by the scheduler's thread only."""

    def __init__(self, send: Callable[[Frame], None], vocab: Vocab) -> None:
        self.send = send
        self._vocab = vocab

    def send_due(self, sequence: Sequence) -> None:
        """Text that a stream has waited for long enough, or that is the last of it."""
        if sequence.finished or time.monotonic() - sequence.sent_at >= DELTA_INTERVAL_S:
            self.send_text(sequence)

    def send_text(self, sequence: Sequence) -> None:
        """All text of a stream that can no longer change."""
        if sequence.request.stream and (text := sequence.text.take()):
            sequence.sent_at = time.monotonic()
            logprobs = self._readable(sequence.take_logprobs())
            progress = sequence.take_progress(text)
            self.send(Delta(sequence.id, text, sequence.num_output_tokens, logprobs, progress))

    def send_end(self, sequence: Sequence, speculation: SpeculationReport) -> None:
        """The last frame of a sequence, which is finished."""
        if sequence.error is not None:
            self.send(Refused(sequence.id, sequence.error))
            return
        assert sequence.finish_reason is not None
        self.send(
            Finished(
                request_id=sequence.id,
                text="" if sequence.request.stream else sequence.text.take(),
                finish_reason=sequence.finish_reason,
                num_prompt_tokens=sequence.num_prompt_tokens,
                num_cached_tokens=sequence.num_cached_tokens,
                num_output_tokens=sequence.num_output_tokens,
                timings=sequence.timings(),
                speculation=speculation,
                logprobs=self._readable(sequence.take_logprobs()),
            )
        )

    def _readable(self, logprobs: list[TokenLogprob]) -> list[TokenLogprob]:
        """With the tokens spelled out, which only the engine can do."""
        spelled = self._vocab.spelled
        return [
            msgspec.structs.replace(
                each, piece=spelled(each.token_id), top_pieces=[spelled(token) for token, _ in each.top]
            )
            for each in logprobs
        ]
