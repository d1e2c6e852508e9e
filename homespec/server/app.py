"""The application: routes, guards and error shapes put together."""

from __future__ import annotations

import time

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from homespec import __version__
from homespec.config import Settings
from homespec.headroom.monitor import Monitor
from homespec.offers import Offers
from homespec.server import (
    admin,
    chat,
    completions,
    document,
    embeddings,
    errors,
    models,
    ollama,
    responses,
    status,
    tokens,
)
from homespec.server.auth import Guard, allowed_host_names
from homespec.server.heads import Heads
from homespec.server.services import Services
from homespec.supervisor import Supervisor


def create_app(supervisor: Supervisor, monitor: Monitor, settings: Settings, offers: Offers) -> FastAPI:
    """The ASGI app over a running supervisor."""
    app = document.Documented(title="homespec", version=__version__, docs_url=None, redoc_url=None)
    app.state.services = Services(supervisor, monitor, offers, started_unix=int(time.time()))
    app.state.max_body_bytes = settings.max_body_bytes
    for router in (chat.router, completions.router, responses.router, embeddings.router, models.router):
        # Clients disagree on whether the base URL ends in /v1.
        app.include_router(router, prefix="/v1")
        app.include_router(router, include_in_schema=False)
    for router in (tokens.router, status.router, admin.router, ollama.router, embeddings.ollama_router):
        app.include_router(router)
    errors.install(app)
    any_host = not settings.loopback_only and settings.insecure
    app.add_middleware(
        Guard,
        keys=settings.api_keys(),
        allowed_hosts=None if any_host else allowed_host_names(settings.host, settings.allowed_hosts),
    )
    app.add_middleware(errors.Crashes)
    app.add_middleware(Heads)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    return app
