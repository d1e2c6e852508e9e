"""What the engine is to be: what was asked for, what of it fits, and what has been learned of it since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from homespec.footprint import Fitted, Footprint
from homespec.frames import Admit, EngineSettings
from homespec.memory_plan import MemoryPlan
from homespec.status import EngineSnapshot, ModelStatus

Fit = Callable[[EngineSettings], Awaitable[Fitted]]


class Plan:
    """One configuration of the engine. Another one is another object: that is how a change is told from a restart."""

    def __init__(self, asked: EngineSettings, fit: Fit | None = None) -> None:
        """`fit` turns what is asked for into settings that fit the box; None: nobody measures."""
        self.asked = asked
        self._wanted = asked
        """The same without what the box lacks."""
        self.settings = asked
        """What was asked for, as it fits, and as it was switched since."""
        self.fit = fit
        self._is_fitted = False
        self.degraded: str | None = None
        """Why the target runs on less than was asked for."""
        self.quarantined = dict(asked.quarantined)
        self.facts: ModelStatus | None = None
        """Of the target, once it has been loaded."""
        self.keep_s: float | None = None
        """Seconds that it stays loaded without a request, where a client has said so."""
        self._estimate: Footprint | None = None
        self.memory: MemoryPlan | None = None
        """What it is expected to take; None when nobody estimated it."""

    @property
    def model_id(self) -> str:
        return self.asked.model_id

    @property
    def must_be_fitted(self) -> bool:
        return self.fit is not None and not self._is_fitted

    @property
    def has_all_it_wants(self) -> bool:
        """Whether the target gets what it would get on a box with room."""
        return self.memory is not None and not self.memory.changes

    @property
    def lacks_gpu(self) -> bool:
        """Whether the CPU serves where a GPU would, if there was one."""
        on_cpu = self.facts is not None and self.facts.devices[0] == "CPU"
        return on_cpu and (self.degraded is not None or self.settings.n_gpu_layers < 0)

    async def measure(self, stopped: asyncio.Event) -> tuple[str, ...]:
        """Find settings that fit; what was decided on the way. Raises HomespecError when there are none."""
        assert self.fit is not None
        fitting = asyncio.ensure_future(self.fit(self._wanted))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({fitting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not fitting.done():
            fitting.cancel()
            await asyncio.wait({fitting})
            return ()
        self._adopt(fitting.result())
        return fitting.result().events

    def unfit(self) -> None:
        """What was measured does not hold any more."""
        self._is_fitted = False

    def switch(self, drafter_mode: str) -> None:
        """Naming a suspect is asking to try it again."""
        self.settings = msgspec.structs.replace(self.settings, drafter_mode=drafter_mode)
        self.quarantined.pop(drafter_mode, None)

    def admit(self, way: Admit) -> None:
        """The draft file fits after all, loaded in this way."""
        self.settings = way.applied_to(self.settings)

    def keep(self, seconds: float | None) -> None:
        """None: as it was told before."""
        self.keep_s = self.keep_s if seconds is None else seconds

    def expect_gpu(self) -> None:
        """One has been in use: the CPU is not to take its place without a word, also where nobody asked for layers."""
        self._wanted = msgspec.structs.replace(self._wanted, expects_gpu=True)
        self.settings = msgspec.structs.replace(self.settings, expects_gpu=True)

    def degrade(self, reason: str) -> None:
        """Do without a GPU, and say why."""
        self._wanted = msgspec.structs.replace(self._wanted, n_gpu_layers=0)
        self.settings = msgspec.structs.replace(self.settings, n_gpu_layers=0)
        self.degraded = reason
        self.unfit()

    def want_gpu(self) -> None:
        """It may be there: take back what `degrade` did, and what was measured without."""
        if self.degraded is not None:
            self._wanted = msgspec.structs.replace(self._wanted, n_gpu_layers=self.asked.n_gpu_layers)
            self.settings = msgspec.structs.replace(self.settings, n_gpu_layers=self.asked.n_gpu_layers)
            self.degraded = None
        self.unfit()

    def start_with(self, withdrawn: str) -> EngineSettings:
        """Settings for an engine that starts now; `withdrawn` as in EngineSettings."""
        return msgspec.structs.replace(self.settings, withdrawn=withdrawn, quarantined=dict(self.quarantined))

    def reconcile(self, snapshot: EngineSnapshot) -> str | None:
        """How far the estimate was off, once; None while it is right."""
        estimate, self._estimate = self._estimate, None
        return estimate.disagreement(snapshot.target_memory) if estimate else None

    def _adopt(self, fitted: Fitted) -> None:
        """The switch may have been turned while they were looked for."""
        self.settings = msgspec.structs.replace(fitted.settings, drafter_mode=self.settings.drafter_mode)
        self._estimate, self.memory = fitted.target, fitted.plan
        self._is_fitted = True
