"""The dashboard against a real server that speaks the protocol of /events."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.widgets import OptionList

from homespec.tui.screens.drafter_choice import DrafterChoice
from homespec.tui.screens.help import HelpScreen
from homespec.units import GIB
from tests.client.daemon_double import DaemonDouble, Reply, encoded, sse

from .screen import screen_text, shown, top, until, until_shown, watching
from .snapshots import HOST, loading, plain, request, speculating, squeezed, waiting

SIZES = [(80, 24), (120, 40), (200, 60)]
EVERYWHERE = [
    "● ready",
    "strict",
    "up 3h 5m",
    "2 restarts",
    "42 requests",
    "12.3k prompt, 4567 reused",
    "83.1 tok/s",
    "prompt 412.6",
    "AL 3.48   accepted 62 %   D 4.1",
    "acceptance · suffix by position",
    "82 %",
    "66 %",
    "55 %",
    "46 %",
    "AL   3.48",
    "D     4.1",
    "KV   24 %",
    "mode auto → suffix ready · D up to 15",
    "matches of 12 tokens: 3.48 tokens per pass at D 4 beat 1.00 without drafting",
    "engine RSS 345.0 MiB",
    "24 % 1966 of 8192",
    "5.0 of 8.0 GiB free",
    "3 running · 1 waiting of at most 64 · TTFT 184ms, median 229ms",
    "drafter: draft off: does not",
    "q quit",
    "d drafter",
    "p pause",
    "? help",
]


@pytest.mark.parametrize("size", SIZES)
async def test_everything_that_matters_is_on_the_screen(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    async with watching(daemon, speculating(), size) as (app, _):
        rows = screen_text(app)
        assert len(rows) <= size[1]
        for text in EVERYWHERE:
            assert any(text in row for row in rows), f"{text!r} is missing in\n" + "\n".join(rows)


@pytest.mark.parametrize("size", [(60, 15), (160, 24), (300, 100)])
async def test_no_size_breaks_it(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    async with watching(daemon, speculating(), size) as (app, pilot):
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: any("83.1 tok/s" in row for row in screen_text(app)))


async def test_wide_and_tall_screens_show_more(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating(), (200, 60)) as (app, _):
        rows = "\n".join(screen_text(app))
        assert "llama 135M Q4_1 · n_ctx 8192 · 4 slots · KV f16 · flash attention · 2 threads · CPU" in rows
        assert "target weights" in rows
        assert "host: others 2.70 GiB, low 205, high 411 MiB" in rows
        assert "prompt reused prefill" in rows
        for drafter in speculating().speculation.drafters:  # type: ignore[union-attr]
            assert drafter.reason in rows
        assert "strict: 512 rows compared, 0 bits differ" in rows
        assert "not drafted: no match 812 · would not pay 97" in rows


async def test_requests_are_numbers_in_columns(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating(), (80, 30)) as (app, _):
        rows = [row.split() for row in shown(app, "#requests").splitlines()]
        assert rows[0] == ["id", "slot", "phase", "prefill", "out", "tok/s", "AL", "acc", "drafter", "D", "age"]
        assert rows[1][1:] == ["0", "decode", "100", "%", "217", "41.5", "3.48", "62", "%", "suffix", "4", "5.2s"]
        assert rows[2][1:] == ["1", "decode", "100", "%", "218", "42.5", "1.00", "–", "–", "0", "5.2s"]
        assert rows[3][1:] == ["2", "prefill", "45", "%", "0", "–", "–", "–", "–", "0", "5.2s"]
        assert rows[1][0].endswith("7f3a9c0000")


async def test_requests_that_do_not_fit_are_counted(daemon: DaemonDouble) -> None:
    many = replace(speculating(), requests=(waiting(9), *(request(slot) for slot in range(6))))
    async with watching(daemon, many) as (app, _):
        assert shown(app, "#requests").splitlines()[-1] == "+ 6 more"


async def test_drafters_that_do_not_fit_are_named(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating()) as (app, _):
        rows = shown(app, "#drafters").splitlines()
        assert rows[1].startswith("▸suffix   ● ready     AL  3.48  62 % free: matches of 12 tokens on average")
        assert rows[2].startswith(" ngram    ● ready     AL  1.75  25 % free: looks the prompt up")
        assert rows[3].startswith(" + 6 more (d: why): grammar ready, draft off, mtp off")


async def test_many_positions_stand_in_columns(daemon: DaemonDouble) -> None:
    stats = speculating().drafts["suffix"].copy()
    stats.num_accepted_per_position = [120 - 6 * position for position in range(15)]
    async with watching(daemon, replace(speculating(), drafts={"suffix": stats})) as (app, _):
        rows = shown(app, "#acceptance").splitlines()[1:]
        assert [row.split()[0] for row in rows] == ["1", "2", "3", "4"]
        cells = [cell.split() for cell in " ".join(rows).replace("━", "").replace("─", "").split(" %") if cell.strip()]
        read = {int(position): int(share) for position, share in cells}
        assert read == {n + 1: round(share * 100) for n, share in enumerate(stats.acceptance_per_position)}


async def test_loading(daemon: DaemonDouble) -> None:
    async with watching(daemon, loading(0.45)) as (app, pilot):
        assert "◐ loading" in shown(app, "Header")
        assert "distribution" not in shown(app, "Header")
        assert shown(app, "Banner") == "━" * 11 + "─" * 13 + "  45 %  reading weights"
        assert "not known before the model is loaded" in shown(app, "#drafters")
        assert "not known before the model is loaded" in shown(app, "#memory")
        assert "nothing in flight" in shown(app, "#requests")
        daemon.send(speculating())
        await until_shown(pilot, "#speed", "83.1 tok/s")
        await until_shown(pilot, "Banner", "42 requests")


async def test_plain_decoding(daemon: DaemonDouble) -> None:
    async with watching(daemon, plain()) as (app, _):
        assert "24.8 tok/s" in shown(app, "#speed")
        assert shown(app, "#acceptance").splitlines() == ["AL 1.00   accepted –   D –", "nothing drafted yet"]
        assert shown(app, "#drafters").startswith("switched off by request")
        assert app.view.query_one("#drafters").border_title == "drafter · mode off → nothing drafts (off)"


async def test_a_dropped_drafter_gives_its_reason(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating(), (120, 40)) as (app, pilot):
        daemon.send(squeezed())
        await until_shown(pilot, "#drafters", "dropped: 96.0 MiB free, low-water mark is 256.0 MiB")
        rows = shown(app, "#drafters").splitlines()
        assert any(row.startswith(" draft    ○ off") and "dropped: 96.0 MiB" in row for row in rows)


@pytest.mark.parametrize("size", SIZES)
async def test_a_withdrawal_is_told_beside_the_memory(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    async with watching(daemon, squeezed(), size) as (app, _):
        assert app.view.query_one("#memory").border_title == "memory · drafter withdrawn · engine RSS 345.0 MiB"
        rows = shown(app, "#memory").splitlines()
        assert any("dropped: 96.0 MiB free" in row for row in rows) == (size != (80, 24))
        assert any("5.0 of 8.0 GiB free" in row for row in rows)


@pytest.mark.parametrize("size", SIZES)
async def test_every_pool_has_a_bar(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    status = speculating()
    assert status.memory is not None
    card = replace(HOST, name="CUDA0", total_bytes=24 * GIB, free_bytes=7 * GIB)
    asleep = replace(
        HOST, name="CUDA1", total_bytes=None, free_bytes=None, source="sleeps", reserve_bytes=None, low_bytes=None
    )
    three = replace(status.memory, pools=(HOST, card, asleep))
    async with watching(daemon, replace(status, memory=three), size) as (app, _):
        rows = {row.split()[0]: row for row in shown(app, "#memory").splitlines()}
        assert rows["host"].endswith(" 5.0 of 8.0 GiB free")
        assert rows["CUDA0"].endswith(" 7.0 of 24.0 GiB free")
        assert rows["CUDA1"].endswith(" sleeps")
        assert "target" in rows
        assert "╌" in rows["host"]
        assert "╌" not in rows["CUDA1"]


async def test_unknown_memory_is_not_zero(daemon: DaemonDouble) -> None:
    status = speculating()
    assert status.memory is not None
    unknown = replace(status.memory, engine_rss_bytes=None, host_total_bytes=None, host_available_bytes=None, pools=())
    async with watching(daemon, replace(status, memory=unknown)) as (app, _):
        assert app.view.query_one("#memory").border_title == "memory · engine RSS n/a"
        assert shown(app, "#memory").splitlines()[-1].endswith("–")


async def test_a_lost_connection_leaves_old_numbers_and_comes_back(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating()) as (app, pilot):
        daemon.stop()
        await until_shown(pilot, "Banner", f"no connection to {daemon.url}: connection refused; retrying")
        await until_shown(pilot, "Header", "? stale")
        assert "83.1 tok/s" in shown(app, "#speed")
        assert app.screen.has_class("-stale")
        daemon.send(plain())
        daemon.start()
        await until_shown(pilot, "#speed", "24.8 tok/s")
        await until_shown(pilot, "Header", "● ready")
        await until_shown(pilot, "Banner", "42 requests")
        assert not app.screen.has_class("-stale")


async def test_no_daemon_at_first(daemon: DaemonDouble) -> None:
    daemon.stop()
    async with watching(daemon) as (app, pilot):
        await until_shown(pilot, "Banner", "connection refused ('homespec serve' starts a daemon, --url names another)")
        assert shown(app, "#speed") == "no snapshot yet"
        daemon.send(speculating())
        daemon.start()
        await until_shown(pilot, "#speed", "83.1 tok/s")


async def test_a_snapshot_of_a_newer_daemon_is_reported(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating()) as (app, pilot):
        daemon.send(encoded(speculating()).replace(b'"phase":"ready"', b'"phase":"dreaming"'))
        await until_shown(pilot, "Banner", "Invalid enum value 'dreaming' - at `$.phase`")
        await until_shown(pilot, "Header", "? stale")
        assert "83.1 tok/s" in shown(app, "#speed")
        daemon.send(sse(b"\xff{"))
        await until_shown(pilot, "Banner", "malformed")
        daemon.send(plain())
        await until_shown(pilot, "#speed", "24.8 tok/s")
        await until_shown(pilot, "Banner", "42 requests")


async def test_a_field_of_a_newer_daemon_is_ignored(daemon: DaemonDouble) -> None:
    async with watching(daemon) as (_, pilot):
        daemon.send(encoded(speculating()).replace(b'{"version"', b'{"mood":"good","version"'))
        await until_shown(pilot, "#speed", "83.1 tok/s")


async def test_a_missing_key_names_the_variable() -> None:
    with DaemonDouble(key="secret") as daemon:
        async with watching(daemon) as (_, pilot):
            await until_shown(pilot, "Banner", f"{daemon.url} refuses: set HOMESPEC_API_KEY to the daemon's key")
        daemon.send(speculating())
        app = top(daemon.url, "secret")
        async with app.run_test() as pilot:
            await until_shown(pilot, "#speed", "83.1 tok/s")


async def test_a_flood_does_not_freeze_it(daemon: DaemonDouble) -> None:
    enough = threading.Event()
    sent = 0

    def flood() -> None:
        nonlocal sent
        while not enough.wait(0.001):
            daemon.send(replace(speculating(), uptime_s=float(sent)))
            sent += 1

    async with watching(daemon, speculating()) as (app, pilot):
        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            await until(pilot, lambda: sent > 50)
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, HelpScreen))
            await pilot.press("x")
            await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
            await until(pilot, lambda: sent > 250)
        finally:
            enough.set()
            flooding.join()
        daemon.send(plain())
        await until_shown(pilot, "#speed", "24.8 tok/s")


async def test_pause_holds_the_numbers_still(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating()) as (app, pilot):
        await pilot.press("p")
        await until_shown(pilot, "Banner", "paused")
        daemon.send(plain())
        await until(pilot, lambda: app._watch.latest == plain())
        app._tick()
        assert "83.1 tok/s" in shown(app, "#speed")
        await pilot.press("p")
        await until_shown(pilot, "#speed", "24.8 tok/s")


async def test_choosing_a_drafter_asks_the_daemon(daemon: DaemonDouble) -> None:
    daemon.replies["/admin/drafter"] = Reply(200, b'{"mode":"ngram","drafter":"ngram","state":"ready","reason":"free"}')
    async with watching(daemon, speculating()) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DrafterChoice))
        options = app.screen.query_one(OptionList)
        ids = [option.id for option in options.options]
        assert ids == ["auto", "off", "suffix", "ngram", "grammar", "draft", "mtp", "eagle3", "dflash", "dspark"]
        await pilot.press("down", "down", "down", "enter")
        await until(pilot, lambda: bool(app._notifications))
        assert [asked.json for asked in daemon.asked("/admin/drafter")] == [{"mode": "ngram"}]
        assert [note.message for note in app._notifications] == ["mode ngram · drafter ngram · ready · free"]


async def test_a_refused_drafter_says_why(daemon: DaemonDouble) -> None:
    daemon.replies["/admin/drafter"] = Reply(400, b'{"error":{"message":"mtp: the target has no MTP heads"}}')
    async with watching(daemon, speculating()) as (app, pilot):
        await pilot.press("d", "down", "enter")
        await until(pilot, lambda: bool(app._notifications))
        (note,) = app._notifications
        assert note.message == "off was refused: mtp: the target has no MTP heads"
        assert note.severity == "error"


async def test_turning_away_from_the_choice_asks_nothing(daemon: DaemonDouble) -> None:
    async with watching(daemon, loading()) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DrafterChoice))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, DrafterChoice))
        assert daemon.asked("/admin/drafter") == []


async def test_help_explains_the_words_and_the_label(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating()) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        help_text = "\n".join(screen_text(app))
        assert "acceptance length: tokens per pass of the target" in help_text
        assert "here: strict 512 rows compared, 0 bits differ" in help_text


async def test_light_and_dark(daemon: DaemonDouble) -> None:
    async with watching(daemon, speculating()) as (app, pilot):
        before = app.current_theme.dark
        await pilot.press("t")
        assert app.current_theme.dark is not before


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quitting_leaves_the_daemon_alone(daemon: DaemonDouble, key: str) -> None:
    async with watching(daemon, speculating()) as (app, pilot):
        await pilot.press(key)
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0
    assert {asked.method for asked in daemon.received} == {"GET"}
