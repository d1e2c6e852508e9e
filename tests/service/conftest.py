from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.notify_socket import NotifySocket


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[NotifySocket]:
    socket = NotifySocket(tmp_path)
    yield socket
    socket.close()
