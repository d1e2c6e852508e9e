"""What the engine measures while nobody asks: its exactness, then what its rounds cost.

In short steps on the scheduler's thread: a request that comes is served before the next one.
"""

from __future__ import annotations

from collections.abc import Callable

from homespec.engine.costs import Costs
from homespec.engine.exactness import Exactness, Verdict, unchecked
from homespec.engine.llama.context import Context
from homespec.engine.slots import Slots
from homespec.errors import KvCacheFull
from homespec.frames import Frame, Measured


class IdleWork:
    """Uses the KV cache of a sequence id of its own, the context's last; where it frees cells, the slots are told."""

    def __init__(
        self,
        context: Context,
        slots: Slots,
        exactness: Exactness,
        costs: Costs | None,
        *,
        send: Callable[[Frame], None],
    ) -> None:
        self._context = context
        self._slots = slots
        self._exactness = exactness
        self._costs = costs
        self._send = send

    @property
    def is_pending(self) -> bool:
        return self._exactness.measure is not None or (self._costs is not None and self._costs.is_pending)

    def step(self) -> None:
        """One short call to the library, if there is something to measure."""
        if self._exactness.measure is not None:
            self._measure_exactness()
        elif self._costs is not None and self._costs.is_pending:
            self._costs.step()

    def interrupt(self) -> None:
        """A request frees cells and fills others: rows measured before and after it would not be comparable."""
        if self._costs is not None and self._costs.interrupt():
            self._slots.scatter()
        exactness = self._exactness
        probe_id = self._context.params.n_seq_max - 1
        if exactness.measure is not None and exactness.begin is not None and self._context.kv_length(probe_id):
            exactness.measure.close()
            exactness.measure = exactness.begin()
            self._slots.scatter()

    def give_way(self) -> bool:
        """Requests need its KV memory; False when it has none."""
        if self._exactness.measure is None:
            return False
        self._exactness.measure.close()
        self._conclude(unchecked("requests needed the context"))
        return True

    def _measure_exactness(self) -> None:
        assert self._exactness.measure is not None
        try:
            next(self._exactness.measure)
        except StopIteration as done:
            self._conclude(done.value)
        except KvCacheFull:
            self._conclude(unchecked("the context is too full for it"))

    def _conclude(self, verdict: Verdict) -> None:
        self._slots.scatter()  # the probe's own cells are free now, perhaps below others
        self._exactness.verdict, self._exactness.measure = verdict, None
        if self._costs is not None:
            self._costs.settings_changed()  # thread counts are chosen before the probe
        self._send(Measured(verdict.label, verdict.reason, self._context.params.n_threads))
