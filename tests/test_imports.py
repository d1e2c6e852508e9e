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


HEAVY = {*NATIVE, *SERVER, "homespec.engine", "numpy", "textual"}


def loaded_by(module: str) -> set[str]:
    """Names of all modules that importing one leads to."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def loaded_by_command(*arguments: str) -> set[str]:
    """Names of all modules that a command has loaded when it ends, however it ends."""
    program = (
        f"import atexit, sys; sys.argv = ['homespec', *{arguments!r}]\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from homespec.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert "Traceback" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("module", PARENT)
def test_the_parent_process_never_loads_the_native_library(module: str) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert not NATIVE & loaded
    assert not any(name.startswith("homespec.engine") for name in loaded)


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("--help",), {"asyncio", "homespec.config", "httpx", "msgspec", "psutil", "pydantic"}),
        (("--version",), {"asyncio", "homespec.config", "httpx", "msgspec", "psutil"}),
        (("models",), {"httpx", "msgspec"}),
        (("status", "--url", "http://127.0.0.1:1"), {"homespec.config", "psutil"}),
    ],
)
def test_light_commands_load_nothing_heavy(command: tuple[str, ...], extra: set[str]) -> None:
    loaded = loaded_by_command(*command)
    assert "homespec.cli" in loaded
    assert not (HEAVY | extra) & loaded


def test_a_plan_leaves_numbers_to_the_child() -> None:
    """Its child loads the library for as long as the rest of the command takes to load."""
    first = loaded_by("homespec.planning.commands")
    assert "homespec.headroom.survey" in first
    assert not HEAVY & first
    assert not {"numpy", "llama_cpp"} & loaded_by("homespec.planning.planned")


def test_the_c_interface_comes_without_the_python_one() -> None:
    """Which is there for whoever asks for it by its name."""
    loaded = loaded_by("homespec.engine.llama.bindings")
    assert "llama_cpp.llama_cpp" in loaded
    assert not {"llama_cpp.llama", "jinja2", "diskcache"} & loaded
    assert "llama_cpp.llama" in loaded_by("homespec.engine.llama.bindings, llama_cpp.llama")


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
