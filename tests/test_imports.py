"""What each part of homespec loads, seen from a fresh interpreter: the linter's contracts, proved at run time."""

from __future__ import annotations

import subprocess
import sys

import pytest

NATIVE = {"llama_cpp", "llguidance"}
SERVER = {"fastapi", "uvicorn", "starlette"}
PARENT = (
    "homespec.bench.command",
    "homespec.cli",
    "homespec.daemon",
    "homespec.supervisor",
    "homespec.server.app",
    "homespec.child",
    "homespec.client",
    "homespec.config",
    "homespec.derive.making",
    "homespec.doctor",
    "homespec.frames",
    "homespec.headroom.planner",
    "homespec.headroom.probe",
    "homespec.metrics",
    "homespec.planning.commands",
    "homespec.store.model_file",
    "homespec.wire.requests",
)


def loaded_by(module: str) -> set[str]:
    """Names of all modules that importing one leads to."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("module", PARENT)
def test_the_parent_process_never_loads_the_native_library(module: str) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert not NATIVE & loaded
    assert not any(name.startswith("homespec.engine") for name in loaded)


@pytest.mark.parametrize("module", ["homespec.tui", "homespec.tui.app"])
def test_the_dashboard_loads_neither_engine_nor_server(module: str) -> None:
    assert not (NATIVE | SERVER) & loaded_by(module)


@pytest.mark.parametrize("module", ["homespec.daemon", "homespec.server.app", "homespec.engine.process"])
def test_only_the_dashboard_loads_textual(module: str) -> None:
    assert "textual" not in loaded_by(module)


def test_the_engine_loads_no_server() -> None:
    loaded = loaded_by("homespec.engine.process")
    assert "llama_cpp" in loaded
    assert not SERVER & loaded


@pytest.mark.parametrize("module", ["sampling.coupled", "sampling.rejection", "template", "text_stream", "slots"])
def test_the_pure_parts_of_the_engine_need_no_native_library(module: str) -> None:
    assert "llama_cpp" not in loaded_by(f"homespec.engine.{module}")
