"""Where the daemon and the dashboard's page listen, unless they are told otherwise."""

from __future__ import annotations

DEFAULT_PORT = 8642
DEFAULT_WEB_PORT = DEFAULT_PORT + 1
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
