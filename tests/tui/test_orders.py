"""Keys that have something done: asked first where it cannot be taken back, and the answer is told."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from homespec.status import Status
from homespec.tui.app import TopApp
from homespec.tui.screens.confirm import Confirm
from tests.client.daemon_double import DaemonDouble, Reply

from .screen import screen_text, top, until
from .snapshots import loading, request, speculating

ID = request(0).id


async def shown(app: TopApp, pilot: Pilot[None], daemon: DaemonDouble, status: Status) -> None:
    daemon.send(status)
    await until(pilot, lambda: app.status == status)
    await pilot.pause()


def told(app: TopApp) -> list[tuple[str, str, str]]:
    return [(note.title, note.severity, note.message) for note in app._notifications]


async def confirm(app: TopApp, pilot: Pilot[None], key: str) -> None:
    await until(pilot, lambda: isinstance(app.screen, Confirm))
    await pilot.press(key)
    await until(pilot, lambda: not isinstance(app.screen, Confirm))


async def test_a_request_is_cancelled_after_a_question(daemon: DaemonDouble) -> None:
    daemon.replies[f"/admin/requests/{ID}"] = Reply(200, b'{"cancelled":1}')
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, speculating())
        await pilot.press("2", "x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert ID in "\n".join(screen_text(app))
        await confirm(app, pilot, "n")
        assert not daemon.asked(f"/admin/requests/{ID}")
        await pilot.press("x")
        await confirm(app, pilot, "y")
        await until(pilot, lambda: bool(app._notifications))
        assert [asked.method for asked in daemon.asked(f"/admin/requests/{ID}")] == ["DELETE"]
        assert told(app) == [("cancel", "information", f"{ID} is cancelled")]


async def test_a_request_that_has_ended_meanwhile_is_told(daemon: DaemonDouble) -> None:
    daemon.replies[f"/admin/requests/{ID}"] = Reply(404, b'{"error":{"message":"it is not in flight"}}')
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, speculating())
        await pilot.press("2", "x")
        await confirm(app, pilot, "y")
        await until(pilot, lambda: bool(app._notifications))
        assert told(app) == [("cancel", "error", f"{ID} was not cancelled: it is not in flight")]


async def test_without_a_request_there_is_nothing_to_cancel(daemon: DaemonDouble) -> None:
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, loading())
        await pilot.press("2", "x")
        await until(pilot, lambda: bool(app._notifications))
        assert not isinstance(app.screen, Confirm)
        assert told(app)[0][:2] == ("cancel", "warning")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(200, b'{"mode":"auto","reloading":true}'), ("reload", "information", "is being loaded again")),
        (
            Reply(200, b'{"mode":"auto","reason":"200 MiB free"}'),
            ("reload", "information", "is kept out: 200 MiB free"),
        ),
        (Reply(400, b'{"error":{"message":"there is none"}}'), ("reload", "error", "not reloaded: there is none")),
    ],
)
async def test_a_drafter_is_reloaded_after_a_question(
    daemon: DaemonDouble, reply: Reply, expected: tuple[str, str, str]
) -> None:
    daemon.replies["/admin/drafter"] = reply
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, speculating())
        await pilot.press("r")
        await confirm(app, pilot, "escape")
        await pilot.press("r")
        await confirm(app, pilot, "y")
        await until(pilot, lambda: bool(app._notifications))
        assert [asked.json for asked in daemon.asked("/admin/drafter")] == [{"reload": True}]
        assert told(app) == [expected]


async def test_the_reason_goes_through_the_terminal_into_the_clipboard(
    daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, speculating())
        assert app._driver is not None
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)
        await pilot.press("y")
        await until(pilot, lambda: bool(app._notifications))
        reason = speculating().speculation.reason  # type: ignore[union-attr]
        assert app.clipboard == reason
        assert f"\x1b]52;c;{base64.b64encode(reason.encode()).decode()}\a" in written


async def test_an_export_is_two_files_whose_paths_are_shown(
    daemon: DaemonDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, speculating())
        await pilot.press("e")
        await until(pilot, lambda: len(app._notifications) == 2)
        paths = {Path(message) for _, _, message in told(app)}
        assert paths == set(await asyncio.to_thread(lambda: list(tmp_path.iterdir())))
        by_kind = {path.suffix: path.read_text(encoding="utf-8") for path in paths}
        assert msgspec.json.decode(by_kind[".json"])["model"]["path"] == "smollm2.gguf"
        assert "83.1" in by_kind[".svg"]


async def test_an_export_that_cannot_be_written_says_why(
    daemon: DaemonDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await shown(app, pilot, daemon, speculating())
        (tmp_path / "gone").rmdir()
        monkeypatch.setattr(Path, "cwd", lambda: tmp_path / "gone")
        await pilot.press("e")
        await until(pilot, lambda: len(app._notifications) == 2)
        assert {severity for _, severity, _ in told(app)} == {"warning"}
        assert "No such file" in told(app)[0][2]


@pytest.mark.parametrize("key", ["y", "e"])
async def test_before_the_first_snapshot_there_is_nothing_to_give(daemon: DaemonDouble, key: str) -> None:
    app = top(daemon.url)
    async with app.run_test(notifications=True) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: bool(app._notifications))
        assert told(app)[0][1] == "warning"
