"""What the endpoints share, found on the app's state."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from homespec.errors import RequestError
from homespec.server.auth import bearer_key
from homespec.server.board import Board
from homespec.supervisor import Supervisor


class Services:
    """The daemon's parts that endpoints use."""

    def __init__(self, supervisor: Supervisor, *, model_id: str, model_path: str, started_unix: int) -> None:
        self.supervisor = supervisor
        self.board = Board(supervisor)
        self.model_id = model_id
        self.model_path = model_path
        self.started_unix = started_unix

    def check_model(self, name: str | None) -> str:
        """The id to answer with. Raises RequestError 404 for a model that is not served."""
        if name in (None, "", "default", self.model_id, Path(self.model_path).stem, Path(self.model_path).name):
            return self.model_id
        raise RequestError(
            f"model {name!r} is not served here; there is {self.model_id!r} (also called 'default')",
            status=404,
            type="not_found_error",
            param="model",
            code="model_not_found",
        )


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _partition(request: Request) -> str:
    """Requests share prefixes with requests of the same key only. Hashed: keys stay in this process."""
    return hashlib.sha256(bearer_key(request).encode()).hexdigest()


ServicesDep = Annotated[Services, Depends(_services)]
PartitionDep = Annotated[str, Depends(_partition)]
