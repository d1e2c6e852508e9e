"""Runs inside the booted tree, with nothing but the standard library: what must hold of the unit."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

RESULTS = Path("/results/report")
CONFIG = Path("/etc/homespec/config.toml")
URL = "http://127.0.0.1:8642"
STOP_LIMIT_S = 5.0
WAIT_S = 120.0


def run(*command: str, may_fail: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    if done.returncode and not may_fail:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def show(name: str) -> str:
    return run("systemctl", "show", "homespec", f"--property={name}", "--value")


def start(verb: str, *, may_fail: bool = False) -> None:
    """Starts by hand count against the limit of the unit too."""
    run("systemctl", "reset-failed", "homespec", may_fail=True)
    run("systemctl", verb, "homespec", may_fail=may_fail)


def until(probe: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not probe():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {WAIT_S:g} s: {what}; {show('ActiveState')}, {show('StatusText')}")
        time.sleep(0.1)


def say(line: str) -> None:
    with RESULTS.open("a") as file:
        file.write(line + "\n")


def answer() -> str:
    body = json.dumps({"prompt": "a", "max_tokens": 3, "temperature": 0}).encode()
    request = urllib.request.Request(f"{URL}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(json.load(response)["choices"][0]["text"])


def answers() -> bool:
    try:
        return answer() == "bcd"
    except (OSError, urllib.error.URLError):
        return False


def engine_pid() -> int:
    with urllib.request.urlopen(f"{URL}/status", timeout=30) as response:
        return int(json.load(response)["engine"]["pid"])


def of_the_service() -> list[int]:
    """Processes that run as the service's user."""
    uid = pwd.getpwnam("homespec").pw_uid
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == uid:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_it_comes_up_at_boot() -> None:
    until(lambda: show("ActiveState") == "active", "the unit is active")
    assert show("StatusText").startswith("ready"), show("StatusText")
    assert answer() == "bcd"
    main = int(show("MainPID"))
    assert pwd.getpwuid(Path(f"/proc/{main}").stat().st_uid).pw_name == "homespec"
    assert set(of_the_service()) >= {main, engine_pid()}


def test_active_means_that_it_answers() -> None:
    start("restart")
    assert answer() == "bcd"


def test_reload_takes_the_new_configuration_and_keeps_the_engine() -> None:
    main, engine = show("MainPID"), engine_pid()
    CONFIG.write_text(CONFIG.read_text() + "max_queue = 3\n")
    run("systemctl", "reload", "homespec")
    until(lambda: "max_queue 32 → 3" in run("journalctl", "--unit=homespec", "--no-pager"), "the reload is told")
    until(lambda: show("ActiveState") == "active", "the reload is over")
    assert (show("MainPID"), engine_pid()) == (main, engine)


def test_a_dead_engine_is_replaced_by_the_daemon() -> None:
    main, engine = show("MainPID"), engine_pid()
    os.kill(engine, signal.SIGKILL)
    until(lambda: answers() and engine_pid() != engine, "another engine answers")
    assert (show("MainPID"), show("NRestarts")) == (main, "0")


def test_the_watchdog_replaces_a_daemon_that_stands_still() -> None:
    main = int(show("MainPID"))
    os.kill(main, signal.SIGSTOP)
    until(lambda: show("NRestarts") == "1", "systemd starts another")
    until(answers, "it answers")
    assert int(show("MainPID")) != main
    assert "watchdog" in run("journalctl", "--unit=homespec", "--no-pager").lower()


def test_stop_is_quick_and_leaves_nothing() -> None:
    started = time.monotonic()
    run("systemctl", "stop", "homespec")
    took = time.monotonic() - started
    assert took <= STOP_LIMIT_S, f"{took:.1f} s"
    assert (show("Result"), of_the_service()) == ("success", [])


def test_a_wrong_configuration_is_not_tried_again() -> None:
    good = CONFIG.read_text()
    CONFIG.write_text(good + "slotz = 1\n")
    start("start", may_fail=True)
    until(lambda: show("ActiveState") == "failed", "the unit has failed")
    assert (show("ExecMainStatus"), show("NRestarts")) == ("3", "0")
    assert "did you mean 'slots'?" in run("journalctl", "--unit=homespec", "--no-pager")
    doctor = run("homespec", "doctor", "--config", str(CONFIG), may_fail=True)
    assert "exit code 3 (CONFIG" in doctor, doctor
    CONFIG.write_text(good)
    start("start")
    assert answer() == "bcd"


def test_install_writes_a_unit_that_runs_and_uninstall_takes_it_away() -> None:
    run("systemctl", "disable", "--now", "homespec")
    run("homespec", "service", "install", "--system")
    run("homespec", "service", "install", "--system")
    assert show("FragmentPath") == "/etc/systemd/system/homespec.service"
    assert answer() == "bcd"
    run("homespec", "service", "status", "--system")
    assert "the system unit runs" in run("homespec", "doctor", may_fail=True)
    run("homespec", "service", "uninstall", "--system")
    assert of_the_service() == []
    assert CONFIG.exists()


def main() -> None:
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        started = time.monotonic()
        try:
            test()
        except BaseException:
            say(f"FAILED {name}\n{traceback.format_exc()}")
            say(run("systemctl", "status", "--no-pager", "--lines=40", "homespec", may_fail=True))
            raise
        say(f"ok {time.monotonic() - started:5.1f} s  {name.removeprefix('test_').replace('_', ' ')}")
    say("all of it holds")


main()
