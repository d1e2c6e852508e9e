from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemons import Daemon, eventually, running
from tests.kits.models import Models

MAX_BODY_BYTES = 256 * 1024
N_CTX = 2048
# One thread: two that wait for each other crawl on a box whose cores are taken. One slot and no kept prefixes: the
# cells of a sequence then lie in order in the KV cache, so no sum has other last bits than last time.
REPEATABLE_FLAGS = ("--ctx", str(N_CTX), "--threads", "1", "--slots", "1")
REPEATABLE_SETTINGS = {"HOMESPEC_CACHED_PREFIXES": "0"}


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The real model, shared by all tests that leave the daemon as they found it and send one request at a time."""
    settings = {"HOMESPEC_MAX_BODY_BYTES": str(MAX_BODY_BYTES), "HOMESPEC_ALLOWED_HOSTS": "box.lan, nas.lan"}
    with running(
        tmp_path_factory.mktemp("demo"), "--demo", *REPEATABLE_FLAGS, environment=REPEATABLE_SETTINGS | settings
    ) as daemon:
        yield daemon
        log = daemon.log()
        assert "Traceback" not in log
        assert "Warning" not in log


@pytest.fixture(scope="session")
def golden(demo: Daemon) -> str:
    """What the demo model says to the golden request while nothing has gone wrong yet."""
    return demo.golden()


@pytest.fixture(scope="module")
def unharmed(demo: Daemon, golden: str) -> Iterator[None]:
    """After the module: the same engine answers the golden request with the same bytes, and nothing is left over."""
    engine_pid = demo.engine_pid
    yield
    assert demo.engine_pid == engine_pid
    assert demo.golden() == golden
    eventually(demo.is_idle, "nothing is left over")


@pytest.fixture(scope="module")
def tiny(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that loads in no time, for what does not depend on the model."""
    with running(tmp_path_factory.mktemp("tiny"), str(models.letters)) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def filler(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Says the letters in turn, fills gaps, and embeds beside; see `Models.gap_filler`."""
    environment = {"HOMESPEC_EMBEDDINGS": "mean"}
    with running(tmp_path_factory.mktemp("filler"), str(models.gap_filler), environment=environment) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def thinker(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Thinks, answers, and calls a tool when it may; see `Models.thinker`. Its template knows tools."""
    with running(tmp_path_factory.mktemp("thinker"), str(models.thinker)) as daemon:
        yield daemon
