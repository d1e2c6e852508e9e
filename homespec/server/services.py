"""What the endpoints share, found on the app's state."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from homespec.errors import RequestError
from homespec.headroom.monitor import Monitor
from homespec.server.auth import bearer_key
from homespec.server.board import Board
from homespec.status import ChatFormat, ModelStatus
from homespec.supervisor import Supervisor
from homespec.wire.chat import UNKNOWN_TEMPLATE


class Services:
    """The daemon's parts that endpoints use."""

    def __init__(
        self, supervisor: Supervisor, monitor: Monitor, *, model_id: str, model_path: str, started_unix: int
    ) -> None:
        self.supervisor = supervisor
        self.monitor = monitor
        self.board = Board(supervisor, monitor)
        self.model_id = model_id
        self.model_path = model_path
        self.started_unix = started_unix

    def check_model(self, name: str | None) -> str:
        """The id to answer with. Raises RequestError 404 for a model that is not served."""
        name = name.removesuffix(":latest") if name else name  # what Ollama's clients add to a name without a tag
        if name in (None, "", "default", self.model_id, Path(self.model_path).stem, Path(self.model_path).name):
            return self.model_id
        raise RequestError(
            f"model {name!r} is not served here; there is {self.model_id!r} (also called 'default')",
            status=404,
            type="not_found_error",
            param="model",
            code="model_not_found",
        )

    def facts(self) -> ModelStatus:
        """Of the target. Raises RequestError 503 while they are not known yet."""
        self.supervisor.check_open()
        facts = self.supervisor.model
        assert facts is not None, "a daemon that is open has loaded its model"
        return facts

    def chat_format(self) -> ChatFormat:
        """Of the target's template. Raises RequestError 503 while that is not known yet."""
        return self.facts().chat or UNKNOWN_TEMPLATE


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _partition(request: Request) -> str:
    """Requests share prefixes with requests of the same key only. Hashed: keys stay in this process."""
    return hashlib.sha256(bearer_key(request).encode()).hexdigest()


def client_of(request: Request) -> str:
    """Who asks, for fairness only: the programs of one box have an address in common, and often no key."""
    address = request.client.host if request.client else ""
    return f"{address} {request.headers.get('user-agent', '')} {_partition(request)}"


ServicesDep = Annotated[Services, Depends(_services)]
PartitionDep = Annotated[str, Depends(_partition)]
