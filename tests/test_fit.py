"""A daemon asks what fits before it loads: it refuses, lowers what is automatic, and keeps a drafter out."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from homespec.errors import ExitCode
from homespec.store.companions import copy_path
from homespec.units import GIB, MIB
from tests.daemons import Daemon, FinishedCommand, eventually, run_serve, running
from tests.kits.models import Models

pytestmark = [pytest.mark.process, pytest.mark.real]

ANY_PORT = ("--port", "0")


def at_start_of(folder: Path, argument: str, code: str) -> dict[str, str]:
    """Environment that makes the processes with that argument run `code` before anything else."""
    site = folder / "site"
    site.mkdir()
    body = "\n".join(f"    {line}" for line in code.splitlines())
    (site / "sitecustomize.py").write_text(f"import os, sys\nif {argument!r} in sys.orig_argv:\n{body}\n")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "HOMESPEC_FIT": "auto", "HOMESPEC_RESERVE_MIB": "100"}


def with_free_memory(folder: Path, available_bytes: int) -> dict[str, str]:
    """A box with that much memory available, in the eyes of the daemon, until `give` says otherwise."""
    give(folder, available_bytes)
    return at_start_of(
        folder,
        "serve",
        "import pathlib, psutil\n"
        "real = psutil.virtual_memory()\n"
        f"available = pathlib.Path({str(folder / 'available')!r})\n"
        "psutil.virtual_memory = lambda: real._replace(available=int(available.read_text()))",
    )


def give(folder: Path, available_bytes: int) -> None:
    new = folder / "available.new"
    new.write_text(str(available_bytes))
    new.replace(folder / "available")


def refused(finished: FinishedCommand, *fragments: str) -> None:
    assert finished.code == ExitCode.DOES_NOT_FIT, finished.stderr
    assert finished.stdout == ""
    complaint = finished.stderr.splitlines()[-1]
    assert complaint.startswith("homespec: ")
    assert "Traceback" not in finished.stderr
    for fragment in fragments:
        assert fragment in complaint


def test_a_context_beyond_all_memory_is_refused_at_once(models: Models, tmp_path: Path) -> None:
    finished = run_serve(tmp_path, "--demo", "--ctx", "2000000000", *ANY_PORT, environment={"HOMESPEC_FIT": "auto"})
    refused(finished, "2000000000 tokens", "GiB needed on CPU", "Nearest that fits: --ctx ")


def test_a_target_that_does_not_fit_is_refused_with_the_nearest_plan(models: Models, tmp_path: Path) -> None:
    """A refusal at the start, not a death at the first request."""
    environment = with_free_memory(tmp_path, 330 * MIB)
    finished = run_serve(tmp_path, "--demo", "--ctx", "8192", *ANY_PORT, environment=environment)
    refused(finished, str(models.demo), "8192 tokens", "230.0 MiB may be used", "Nearest that fits: --ctx ")


def test_automatic_context_is_lowered_for_the_target_and_the_drafter_waits_for_room(
    models: Models, tmp_path: Path
) -> None:
    environment = with_free_memory(tmp_path, 330 * MIB) | {"HOMESPEC_KV_TYPE": "auto"}
    with running(tmp_path, "--demo", "--draft", str(models.demo), environment=environment) as daemon:
        status = daemon.status()
        assert status["model"]["n_ctx"] < 8192 or status["model"]["kv_type"] == "q8_0"
        told = [event["text"] for event in status["events"] if event["kind"] == "model"]
        assert any(text.startswith("fits: ") for text in told)
        assert not any("were allocated" in text for text in told)
        [draft] = [drafter for drafter in status["speculation"]["drafters"] if drafter["name"] == "draft"]
        assert draft["state"] == "off"
        assert "does not fit" in draft["reason"]
        plan = status["memory"]["plan"]
        assert plan["target"]["n_ctx"] == status["model"]["n_ctx"]
        assert plan["drafter"] is None
        assert [verdict["is_admitted"] for verdict in plan["verdicts"]] == [False, True]
        assert "does not fit" in plan["verdicts"][0]["reason"]
        assert plan["verdicts"][0]["needed_bytes"] > 0
        assert plan["changes"]
        daemon.post("/admin/drafter", {"mode": "draft"})
        assert "does not fit" in eventually(lambda: daemon.status()["speculation"], "the switch")["reason"]
        plain = daemon.golden()
        assert daemon.status()["memory"]["monitor"]["watch"] == "refused"

        give(tmp_path, 8 * GIB)
        eventually(lambda: daemon.health().json()["drafters"]["draft"]["state"] == "ready", "it is let in", 60)
        assert daemon.golden() == plain
        after = daemon.status()
        assert after["engine"]["restarts"] == 0
        assert after["model"] == status["model"]
        assert after["memory"]["monitor"]["counts"]["asked"] == 1
        assert any(event["text"].startswith("admitted: host has ") for event in after["events"])


def test_a_box_with_room_serves_as_asked(models: Models, tmp_path: Path) -> None:
    environment = {"HOMESPEC_FIT": "auto"}
    arguments = (str(models.random), "--ctx", "300", "--draft", str(models.other_random))
    with running(tmp_path, *arguments, environment=environment) as daemon:
        status = daemon.status()
        assert status["model"]["n_ctx"] == 300
        told = [event["text"] for event in status["events"]]
        assert any("300 tokens as asked; llama.cpp allocates 512" in text for text in told)
        eventually(lambda: daemon.status()["speculation"]["state"] == "ready", "the drafter is in")
        memory = eventually(lambda: _with_drafter(daemon.status()["memory"]), "its memory is told")
        for model in ("target", "drafter"):
            for part in ("weights_bytes", "kv_bytes", "compute_bytes"):
                assert abs(memory["plan"][model][part] - memory[model][part]) < MIB
        assert memory["plan"]["verdicts"][0]["is_admitted"]


def _with_drafter(memory: Any) -> Any:
    return memory if memory["drafter"]["weights_bytes"] else None


def test_a_copy_that_lies_with_the_model_drafts_without_being_named(models: Models, tmp_path: Path) -> None:
    model = Path(shutil.copy(models.markov, tmp_path / "model.gguf"))
    copy = Path(shutil.copy(models.markov_drafter, copy_path(model, "Q4_0")))
    environment = {"HOMESPEC_FIT": "auto", "HOMESPEC_CONTROLLER": "auto"}
    with running(tmp_path, str(model), environment=environment) as daemon:
        speculation = eventually(lambda: ready(daemon, "draft"), "the copy is in")
        assert speculation["drafter"] == "draft"
        assert speculation["order"] == ["grammar", "suffix", "draft", "ngram"]
        [draft] = [drafter for drafter in speculation["drafters"] if drafter["name"] == "draft"]
        assert draft["path"] == str(copy)
        assert any(event["text"].startswith(f"{copy} fits in full") for event in daemon.status()["events"])


def ready(daemon: Daemon, name: str) -> dict[str, Any] | None:
    speculation: dict[str, Any] = daemon.status()["speculation"]
    states = {drafter["name"]: drafter["state"] for drafter in speculation["drafters"]}
    return speculation if states[name] == "ready" else None


def test_a_signal_ends_a_daemon_that_measures(models: Models, tmp_path: Path) -> None:
    environment = at_start_of(tmp_path, "homespec.engine.surveyor", "import time\ntime.sleep(600)")
    with running(tmp_path, str(models.random), environment=environment, wait=False) as daemon:
        eventually(lambda: daemon.health().json()["detail"] == "measuring what fits", "it measures")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == ExitCode.OK
        assert daemon.survivors() == []


def test_new_settings_are_made_to_fit_and_refused_where_they_do_not(models: Models, tmp_path: Path) -> None:
    config = tmp_path / "homespec.toml"

    def said_after(ctx: int) -> str:
        config.write_text(f'model = "{models.letters}"\nctx = {ctx}')
        before = len(said())
        daemon.signal(signal.SIGHUP)
        eventually(lambda: len(said()) > before, "the daemon has read it again", 60)
        return said()[-1]

    def said() -> list[str]:
        return [event["text"] for event in daemon.status()["events"] if event["kind"] == "daemon"]

    config.write_text(f'model = "{models.letters}"\nctx = 512')
    with running(tmp_path, "--config", str(config), environment={"HOMESPEC_FIT": "auto"}) as daemon:
        text = said_after(1_000_000_000)
        assert "not taken" in text
        assert "Nearest that fits: --ctx " in text
        eventually(lambda: daemon.health().status_code == 200, "the configuration from before is back")
        assert daemon.status()["model"]["n_ctx"] == 512
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"

        assert "ctx 512 → 700" in said_after(700)
        status = daemon.status()
        assert status["model"]["n_ctx"] == 700
        assert any("700 tokens as asked" in event["text"] for event in status["events"])
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
