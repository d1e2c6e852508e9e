from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Read by libgomp and ggml when they are loaded, so set before any test imports llama_cpp: an unbounded spin stalls two
# cores that something else uses, and a backtrace starts a debugger.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests.kits.models import Models
from tests.kits.notify_socket import NotifySocket

settings.register_profile(
    "homespec", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("homespec")


@pytest.fixture(scope="session", autouse=True)
def _own_cache_folder() -> Iterator[None]:
    """What homespec remembers between runs stays out of the user's cache; child processes inherit it."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        yield


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Tiny GGUF files, each written on first use."""
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def demo_path(models: Models) -> Path:
    """The real model that ships in the `demo` extra."""
    return models.demo


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[NotifySocket]:
    """A stand-in for the service manager."""
    socket = NotifySocket(tmp_path)
    yield socket
    socket.close()
