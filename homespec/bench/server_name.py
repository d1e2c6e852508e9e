"""Errors of the network say which server they are about, and what helps there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from homespec.bench.patience import OF_THE_SET_UP, PromptFailed, PromptRefused, ServerBusy, ServerSilent
from homespec.client.failures import StreamCutError, UnreachableError
from homespec.client.http import Client
from homespec.errors import RequestError

OF_THE_KEY = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Remedies:
    """What a reader can do when a server refuses everything."""

    key: str
    address: str


OURS = Remedies("set HOMESPEC_API_KEY to the daemon's key", "is it homespec? check --url")
THEIRS = Remedies(
    "set OPENAI_API_KEY to its key",
    "--against takes its address up to /v1, and --against-model one of the names on its /v1/models",
)


@contextmanager
def named(client: Client, remedies: Remedies = OURS) -> Iterator[None]:
    """What concerns one prompt alone keeps its own words."""
    try:
        yield
    except (PromptRefused, PromptFailed):
        raise
    except UnreachableError as error:
        raise UnreachableError(f"nothing answers at {client.url}: {error}; start it, or pass another URL") from error
    except (StreamCutError, ServerBusy, ServerSilent) as error:
        raise type(error)(f"{client.url}: {error}") from error
    except RequestError as error:
        status = error.info.status
        raise RequestError(f"{client.url}: {error}{_remedy(status, remedies)}", status=status) from error


def _remedy(status: int, remedies: Remedies) -> str:
    """Of an error that another key, path or model would end."""
    if status not in OF_THE_SET_UP:
        return ""
    return f" (HTTP {status}); {remedies.key if status in OF_THE_KEY else remedies.address}"
