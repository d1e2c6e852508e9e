"""What the clients load, seen from a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

ALLOWED = {"client", "errors", "memory_plan", "stats", "status", "tui", "units"}


def loaded(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["homespec.tui", "homespec.tui.app", "homespec.tui.chat.session"])
def test_the_clients_need_no_engine_and_no_server(module: str) -> None:
    own = {name.split(".")[1] for name in loaded(module) if name.startswith("homespec.")}
    assert own <= ALLOWED


def test_the_chat_does_not_load_the_dashboard() -> None:
    assert "textual" not in loaded("homespec.tui.chat.session")
    assert not {"textual", "httpx", "msgspec"} & loaded("homespec.tui")
