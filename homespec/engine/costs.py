"""The controller of an engine, with its costs: kept from an earlier run, or measured while there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from homespec.engine.control.calibration import Calibration, draft_seconds
from homespec.engine.control.controller import Controller
from homespec.engine.control.cost import CostModel, CostTable, fastest
from homespec.engine.drafters.choice import FREE
from homespec.engine.drafters.drafter import Draft, Drafter, DraftRequest
from homespec.engine.drafters.roster import Roster
from homespec.engine.kept import NUM_RUNS, Kept, context_key
from homespec.engine.llama.context import Context
from homespec.engine.llama.library import library


class Costs:
    """Owned by the scheduler thread. `step` while idle, `interrupt` before a request gets the KV cache."""

    def __init__(self, context: Context, roster: Roster, *, least_rows: int = 1, kept: Kept | None = None) -> None:
        self._context = context
        self._roster = roster
        self._kept = kept or Kept("costs")
        on_cpu = not library().offload_devices()
        cost = CostModel(None, max_rows=context.params.n_outputs_max, on_cpu=on_cpu)
        self.controller = Controller(cost, least_rows=least_rows)
        self._key = self.source = ""
        self._calibration: Calibration | None = None
        self._earlier: CostTable | None = None
        self._was_cut = False
        """Other work took threads away while it ran."""
        self._measured_drafters: set[int] = set()
        """Their ids: a drafter that is loaded again is measured again."""
        self._drafting: tuple[str, Iterator[dict[int, float]]] | None = None
        self.settings_changed()

    def settings_changed(self) -> None:
        """The context may decode with other settings than before: what they cost is another question."""
        if (key := context_key(self._context)) == self._key:
            return
        self.interrupt()
        self._key, self._earlier = key, self._read(key)
        is_settled = self._earlier is not None and self._earlier.num_runs >= NUM_RUNS
        self._calibration = None if is_settled else Calibration(self._context, self._probe_id)
        self._was_cut = False
        if self._earlier is None:
            self.source = "unknown"
            return
        self.controller.cost.use(self._earlier)
        self.source = "kept" if is_settled else "rechecking"

    @property
    def is_pending(self) -> bool:
        """Whether there is something left to measure."""
        return self._calibration is not None or self._drafting is not None or self._next_drafter() is not None

    def step(self) -> None:
        """One short call to the library."""
        if self._calibration is not None:
            self._calibrate(self._calibration)
        elif self._drafting is not None:
            self._measure_draft(*self._drafting)
        elif (drafter := self._next_drafter()) is not None:
            self._measured_drafters.add(id(drafter))
            steps = draft_seconds(self._asking(drafter), self._probe_id, self._context.model.vocab.n_vocab)
            self._drafting = drafter.name, steps

    @property
    def threads(self) -> tuple[int, int]:
        """For a single row, and for batches."""
        params = self._context.params
        return params.n_threads, params.n_threads_batch or params.n_threads

    def interrupt(self) -> bool:
        """A request comes; True when that has freed cells of the target's KV cache."""
        return self._calibration is not None and self._calibration.interrupt()

    @property
    def _probe_id(self) -> int:
        return self._context.params.n_seq_max - 1

    def _calibrate(self, calibration: Calibration) -> None:
        calibration.step()
        self._was_cut = self._was_cut or self._context.crew.is_cut
        if not calibration.is_done:
            return
        self._calibration = None
        if (table := calibration.table()) is not None:
            if self._earlier is not None:
                table = fastest(self._earlier, table)
            self.controller.cost.use(table)
            self.source = "measured"
            if not self._was_cut:  # the key stands for the full number of threads
                self._kept.put(self._key, msgspec.to_builtins(table))

    def _measure_draft(self, name: str, steps: Iterator[dict[int, float]]) -> None:
        seconds = next(steps, None)
        if seconds:
            self.controller.cost.set_draft_s(name, seconds)
        if seconds is None:
            self._drafting = None
            self._roster.close(self._probe_id)

    def _asking(self, drafter: Drafter) -> Callable[[DraftRequest], Draft]:
        def propose(request: DraftRequest) -> Draft:
            return self._roster.propose(drafter, [request])[0]

        return propose

    def _next_drafter(self) -> Drafter | None:
        costly = [drafter for drafter in self._roster.drafters() if drafter.name not in FREE]
        return next((drafter for drafter in costly if id(drafter) not in self._measured_drafters), None)

    def _read(self, key: str) -> CostTable | None:
        """None when there is nothing, or nothing that a calibration could have found."""
        with suppress(msgspec.ValidationError):
            table = msgspec.convert(self._kept.get(key), CostTable)
            return table if table.is_sound else None
        return None
