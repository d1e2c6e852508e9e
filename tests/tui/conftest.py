from __future__ import annotations

from tests.client.conftest import daemon as daemon
from tests.client.conftest import plain_terminal as plain_terminal
