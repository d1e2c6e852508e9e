"""Every screen and every key of the dashboard, against a server that says exactly what a test tells it."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from homespec.memory_plan import MemoryPlan, PlannedModel
from homespec.status import Event, ModelMemory, RequestStatus, ResidentStatus
from homespec.tui.event_log import CAPACITY
from homespec.tui.screens.chat import ChatView
from homespec.tui.screens.confirm import Confirm
from homespec.tui.screens.log import LogView
from homespec.tui.screens.requests import RequestsView
from homespec.tui.widgets.rows import Rows
from homespec.tui.widgets.view_bar import NAMES, ViewBar
from homespec.units import GIB, KIB, MIB
from tests.client.daemon_double import DaemonDouble, sse

from .screen import painted, screen_text, shown, until, until_shown, watching
from .snapshots import HOST, NOW_UNIX, betting, loading, plain, request, speculating

SIZES = [(80, 24), (120, 40), (200, 60)]
TEXTS = {
    "1": ["83.1 tok/s", "plain 54.7, gain 1.52×"],
    "2": [
        "3 running · 1 waiting of at most 64",
        "suffix D=4: expected 3.1 tokens",
        "512 of 512 prompt tokens, 128 reused",
    ],
    "3": [
        "plan against reality",
        "5.00 GiB of 8.00 GiB free",
        "KV cache 1966 of 8192 tokens",
        "low 205  high 411 MiB",
        "303.0 MiB 304.0 MiB    +1.0",
        "drafter.gguf",
        "412.0 MiB · 1.61× expected at D 4",
        "admitted",
        "low_memory: host has 96.0 MiB free",
    ],
    "4": [
        "cost of a target pass in T(1) · measured",
        "░1.31",
        "T(1) 11.9 ms with 2 threads, 1 for a batch",
        "░1.45",
        "0.98–1.00",
        "97 % of 913",
        "slot 0  suffix   AL 3.48   suffix D=4: expected",
        "‖ ngram paused for 64 rounds: 0.91× plain",
        "no match",
        "not drafted · 909 of 1049 turns",
    ],
    "5": ["log · 4 of 4 events", "restarted: killed by signal 9; 1 request was replayed", "draft off: does not fit"],
    "6": ["your message", "nothing asked yet", "suffix"],
}
CHUNK = {"choices": [{"delta": {"content": "one two three"}}]}
REPORT = {
    "state": "ready",
    "reason": "suffix is ready",
    "drafters": {"suffix": 3},
    "rounds": 3,
    "drafted": 9,
    "accepted": 4,
    "acceptance_length": 2.33,
    "per_position": [1.0, 0.33],
    "exactness": "strict",
}
TIMINGS = {
    "prompt_n": 5,
    "prompt_ms": 10.0,
    "prompt_per_second": 500.0,
    "predicted_n": 7,
    "predicted_ms": 100.0,
    "predicted_per_second": 70.0,
    "cache_n": 0,
    "draft_n": 9,
    "draft_n_accepted": 4,
}


def chunk(**fields: object) -> bytes:
    return sse(json.dumps({**CHUNK, **fields}))


def answer() -> list[bytes]:
    """A streamed answer; accepted draft tokens wrote its second word."""
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "speculative": REPORT, "timings": TIMINGS}
    progress = {"rounds": 3, "accepted": 4, "spans": [[4, 7]]}
    return [chunk(speculative=progress), sse(json.dumps(last)), sse("[DONE]")]


@pytest.mark.parametrize("size", SIZES)
async def test_every_screen_says_what_the_daemon_says(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    async with watching(daemon, betting(), size) as (app, pilot):
        for key, texts in TEXTS.items():
            await pilot.press(key)
            await until(pilot, lambda: app.status == betting())
            await pilot.pause()
            rows = screen_text(app)
            assert len(rows) <= size[1]
            for text in texts:
                assert any(text in row for row in rows), f"{text!r} is missing in\n" + "\n".join(rows)
            assert f"[{key} {NAMES[int(key) - 1]}]" in rows[1]
            assert any("? help" in row and "q quit" in row for row in rows) or key in "56"


@pytest.mark.parametrize("size", SIZES)
async def test_models_that_stay_loaded_have_a_share_and_are_listed(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    status = betting()
    assert status.memory is not None
    card = replace(HOST, name="CUDA0", total_bytes=24 * GIB, free_bytes=7 * GIB)
    pools = (replace(HOST, residents_bytes=300 * MIB), card)
    residents = (
        ResidentStatus("letters", 4713, ModelMemory(GIB), 601.0),
        ResidentStatus("digits", 4712, ModelMemory(3 * GIB, GIB), 192.0),
    )
    told = replace(status, memory=replace(status.memory, pools=pools, residents=residents))
    async with watching(daemon, told, size) as (app, pilot):
        await pilot.press("3")
        await until(pilot, lambda: "also loaded" in shown(app, "#pools"))
        rows = shown(app, "#pools").splitlines()
        assert "also loaded: digits 4.00 GiB, idle 3m 12s · letters 1.00 GiB, idle 10m 1s" in rows[-1]
        assert "≡ residents" in rows[-2]
        assert {"host", "CUDA0"} <= {row.split()[0] for row in rows}
        assert "≡" in rows[0]
        if size != (80, 24):  # where numbers give way to the list
            assert "residents 300  others" in rows[1]


@pytest.mark.parametrize("size", [(80, 24), (80, 60), (100, 60)])
async def test_memory_of_a_large_box_is_not_cut_off(daemon: DaemonDouble, size: tuple[int, int]) -> None:
    status = betting()
    assert status.memory is not None
    target, drafter = ModelMemory(123 * GIB, 12 * GIB, GIB), ModelMemory(12 * GIB)
    host = replace(HOST, total_bytes=512 * GIB, free_bytes=128 * GIB, target=target, drafter=drafter)
    planned = PlannedModel(120 * GIB, 12 * GIB, GIB, 0, 8192, "f16", measured=True)
    plan = MemoryPlan(planned, None)
    memory = replace(status.memory, pools=(host,), target=target, drafter=drafter, plan=plan)
    async with watching(daemon, replace(status, memory=memory), size) as (app, pilot):
        assert "128.0 of 512.0 GiB free" in painted(app, "#memory")
        await pilot.press("3")
        await until(pilot, lambda: "512.0 GiB" in shown(app, "#pools"))
        pools, rows = painted(app, "#pools"), painted(app, "#plan")
        assert "128.0 GiB of 512.0 GiB free" in pools
        if size[0] == 80:  # where there is no room for the names
            assert f"━ {124 * KIB}  ═ {12 * KIB}  ╍ {12 * KIB}  ╌ {236 * KIB}" in pools
        assert f" {(host.high_bytes or 0) // MIB} MiB" in pools
        assert "weights 120.0 GiB 123.0 GiB   +3072" in rows
        assert "…" not in pools + rows


async def test_no_size_breaks_a_screen(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), (1, 1)) as (app, pilot):
        for key in "234561":
            await pilot.press(key)
            assert app.current_mode == NAMES[int(key) - 1]
            await pilot.press("escape")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: any("83.1 tok/s" in row for row in screen_text(app)))


async def test_screens_are_told_nothing_they_do_not_show(daemon: DaemonDouble) -> None:
    """While the model loads nothing is known, and no screen claims anything."""
    async with watching(daemon, loading()) as (app, pilot):
        for key, selector in (
            ("2", "#request"),
            ("3", "#plan"),
            ("3", "#verdicts"),
            ("4", "#costs"),
            ("4", "#decisions"),
        ):
            await pilot.press(key)
            await until(pilot, lambda wanted=selector: bool(shown(app, wanted)))  # type: ignore[misc]
            text = shown(app, selector)
            assert not any(letter.isdigit() for letter in text), text


async def test_an_older_daemon_is_shown_as_far_as_it_goes(daemon: DaemonDouble) -> None:
    status = betting()
    assert status.speculation is not None
    assert status.speculation.controller is not None
    assert status.memory is not None
    older = replace(status.speculation.controller, verify_table=None, draft_ms={}, reliability={})
    speculation = replace(status.speculation, controller=older)
    before = replace(status, speculation=speculation, memory=replace(status.memory, plan=None))
    async with watching(daemon, before, keys=("4",)) as (app, pilot):
        assert "▒1.38" not in shown(app, "#costs")
        assert "1.38" in shown(app, "#costs")
        assert "no forecast" in shown(app, "#reliability")
        await pilot.press("3")
        await until_shown(pilot, "#plan", "nothing was estimated before the load")
        assert "304.0 MiB" in shown(app, "#plan")


async def test_without_a_controller_the_screen_says_so(daemon: DaemonDouble) -> None:
    async with watching(daemon, plain(), keys=("4",)) as (app, _):
        assert "D is fixed: nothing decides by costs" in shown(app, "#costs")
        assert "slot 1  plain    AL 1.00   D 0; the controller was not asked" in shown(app, "#decisions")


async def test_names_can_be_clicked(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting()) as (app, pilot):
        bar = shown(app, "ViewBar")
        for name in ("speculation", "overview"):
            await pilot.click(ViewBar, offset=(bar.index(name), 0))
            await until(pilot, lambda wanted=name: app.current_mode == wanted)  # type: ignore[misc]
        assert "127.0.0.1" in bar


async def test_the_palette_knows_every_screen(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting()) as (app, pilot):
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert titles[: len(NAMES)] == [f"Show {name}" for name in NAMES]
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press(*"mem")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "memory")


async def test_numbers_are_not_drawn_where_nobody_looks(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting()) as (app, pilot):
        overview = app.view
        await pilot.press("3")
        daemon.send(plain())
        await until(pilot, lambda: app.status == plain())
        assert overview.status == betting()
        await pilot.press("1")
        await until_shown(pilot, "#speed", "24.8 tok/s")


async def test_pause_holds_every_screen_still(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("p", "3")) as (app, pilot):
        daemon.send(plain())
        await until(pilot, lambda: app._watch.latest == plain())
        await pilot.press("4")
        await until_shown(pilot, "Banner", "paused")
        assert "suffix D=4" in shown(app, "#decisions")
        await pilot.press("p")
        await until_shown(pilot, "#decisions", "slot 1")


# Requests


async def test_the_cursor_stays_on_its_request(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("2", "down")) as (app, pilot):
        view = app.view
        assert isinstance(view, RequestsView)
        assert view.selected_request == betting().requests[1]
        assert view.reason == "off: draft would cost 0.38 T(1) for 0.21 tokens"
        ended = replace(betting(), requests=betting().requests[1:])
        daemon.send(ended)
        await until(pilot, lambda: app.status == ended)
        assert view.selected_request == ended.requests[0]
        await pilot.press("G")
        assert view.selected_request == ended.requests[-1]
        await pilot.press("g")
        assert view.selected_request == ended.requests[0]
        nothing = replace(ended, requests=())
        daemon.send(nothing)
        await until_shown(pilot, "#request", "no request is in flight")
        assert view.selected_request is None


async def test_a_click_chooses_a_request(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("2",)) as (app, pilot):
        await pilot.click(Rows, offset=(10, 2))
        await until_shown(pilot, "#request", betting().requests[2].id)
        assert "230 of 512 prompt tokens" in shown(app, "#request")


async def test_a_long_list_scrolls_with_the_cursor(daemon: DaemonDouble) -> None:
    many = replace(speculating(), requests=tuple(request(number) for number in range(64)))
    async with watching(daemon, many, keys=("2", "end")) as (app, pilot):
        rows: Rows[RequestStatus] = app.view.query_one(Rows)
        assert rows.selected == many.requests[-1]
        await until(pilot, lambda: rows.scroll_offset.y + rows.size.height == 64)
        await pilot.press("pageup", "pageup")
        assert rows.cursor < 64 - rows.size.height
        assert any("▸" in row for row in screen_text(app))


# Log


async def test_the_log_is_searched_and_filtered(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("5", "slash", *"KILL")) as (app, pilot):
        rows = app.view.query_one(Rows)
        assert [event.text for event in rows._items] == [betting().events[1].text]
        assert app.view.query_one("#events-list").border_title == "log · 1 of 4 events · with “KILL”"
        await pilot.press("enter")
        assert app.focused is rows
        assert app.view.reason == f"engine: {betting().events[1].text}"
        await pilot.press("escape")
        assert len(rows._items) == 4
        await pilot.press("f")
        assert [event.kind for event in rows._items] == ["daemon"]
        await pilot.press("f", "f", "f", "f")
        assert len(rows._items) == 4


async def test_a_search_takes_letters_and_digits_that_are_keys_elsewhere(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("5", "slash", *"1q?dp")) as (app, _):
        assert isinstance(app.view, LogView)
        assert app.view.query_one("#search", Input).value == "1q?dp"


async def test_the_log_follows_the_newest_until_the_cursor_is_moved(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("5",)) as (app, pilot):
        rows = app.view.query_one(Rows)
        assert rows.selected == betting().events[-1]
        newer = Event(NOW_UNIX, "engine", "something new")
        daemon.send(replace(betting(), events=(*betting().events, newer)))
        await until(pilot, lambda: rows.selected == newer)
        await until_shown(pilot, "#event", "something new")
        await pilot.press("up")
        daemon.send(replace(betting(), events=(*betting().events, newer, replace(newer, text="newest"))))
        await until(pilot, lambda: len(rows._items) == 6)
        assert rows.selected == betting().events[-1]


async def test_a_thousand_events_a_second_do_not_freeze_it(daemon: DaemonDouble) -> None:
    enough, sent = threading.Event(), 0

    def flood() -> None:
        nonlocal sent
        while not enough.wait(0.01):
            latest = tuple(Event(NOW_UNIX + n, "engine", f"event {n}") for n in range(sent, sent + 50))
            daemon.send(replace(betting(), events=latest))
            sent += 10

    async with watching(daemon, betting(), keys=("5",)) as (app, pilot):
        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            await until(pilot, lambda: sent > 100)
            await pilot.press("1")
            await until(pilot, lambda: app.current_mode == "overview")
            await pilot.press("5", "slash", "v")
            await until(pilot, lambda: sent > 500)
            assert app.view.query_one("#search", Input).value == "v"
        finally:
            enough.set()
            flooding.join()
        assert len(app._watch.log) <= CAPACITY


# Chat


async def test_the_chat_marks_what_was_drafted(daemon: DaemonDouble) -> None:
    daemon.chat = answer()
    async with watching(daemon, betting(), keys=("6", *"H 1", "enter")) as (app, pilot):
        await until_shown(pilot, "Turn.-note", "7 tokens · 70.0 tok/s")
        (asked,) = daemon.asked("/v1/chat/completions")
        assert asked.json["messages"] == [{"role": "user", "content": "H 1"}]
        assert asked.json["speculative"] == {"spans": True}
        assert shown(app, "Turn.-you") == "› H 1"
        assert shown(app, "Turn.-model") == "◆ one two three"
        text = app.export_screenshot(simplify=True)
        assert "text-decoration: underline" in text or "underline" in text
        stats = shown(app, "#chat-stats")
        for fact in (
            "tokens     7",
            "70.0 tok/s",
            "AL         2.33",
            "4 of 9",
            "23 % of the text",
            "1 answer · 7 tokens",
        ):
            assert fact in stats, stats


async def test_thinking_is_shown_apart_and_not_sent_back(daemon: DaemonDouble) -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "hm"}}]}
    daemon.chat = [sse(json.dumps(thought)), *answer()]
    async with watching(daemon, betting(), keys=("6", "h", "enter")) as (app, pilot):
        await until_shown(pilot, "Turn.-note", "7 tokens")
        assert shown(app, "Turn.-model") == "◆ hm\n\none two three"
        assert "italic" in app.export_screenshot()
        assert "23 % of the text" in shown(app, "#chat-stats")
        await pilot.press("g", "enter")
        await until(pilot, lambda: len(daemon.asked("/v1/chat/completions")) == 2)
        messages = daemon.asked("/v1/chat/completions")[1].json["messages"]
        assert [message["content"] for message in messages] == ["h", "one two three", "g"]


async def test_a_question_over_the_chat_leaves_the_box_as_it_was(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("6",)) as (app, pilot):
        await until(pilot, lambda: isinstance(app.focused, Input))
        await pilot.press("escape", "question_mark", "x")
        await until(pilot, lambda: app.screen is app.view)
        await pilot.pause()
        assert not isinstance(app.focused, Input)
        await pilot.press("1", "6")
        await until(pilot, lambda: isinstance(app.focused, Input))


async def test_an_answer_is_stopped_and_stays(daemon: DaemonDouble) -> None:
    daemon.chat, daemon.chat_stays_open = [chunk()], True
    async with watching(daemon, betting(), keys=("6", "h", "enter")) as (_, pilot):
        await until_shown(pilot, "Turn.-model", "one two three")
        await pilot.press("escape")
        await until_shown(pilot, "Turn.-note", "stopped")
        await until(pilot, lambda: daemon.chats_left == 1)
        await pilot.press("g", "enter")
        await until(pilot, lambda: len(daemon.asked("/v1/chat/completions")) == 2)
        messages = daemon.asked("/v1/chat/completions")[1].json["messages"]
        assert [message["content"] for message in messages] == ["h", "one two three", "g"]


async def test_an_answer_goes_on_behind_another_screen(daemon: DaemonDouble) -> None:
    daemon.chat, daemon.chat_stays_open = [chunk()], True
    async with watching(daemon, betting(), keys=("6", "h", "enter")) as (app, pilot):
        await until_shown(pilot, "Turn.-model", "one")
        chat = app.view
        assert isinstance(chat, ChatView)
        chat.query_one("#turns").focus()
        await pilot.press("2")
        assert app.current_mode == "requests"
        assert not daemon.chats_left
        await pilot.press("6")
        assert shown(app, "Turn.-model") == "◆ one two three"


async def test_a_chat_that_fails_says_why_and_forgets_the_question(daemon: DaemonDouble) -> None:
    daemon.chat = [sse('{"error": {"message": "the engine died"}}')]
    async with watching(daemon, betting(), keys=("6", "h", "enter")) as (_, pilot):
        await until_shown(pilot, "Turn.-error", "✗ the engine died")
        daemon.chat = answer()
        await pilot.press("g", "enter")
        await until_shown(pilot, "Turn.-note", "7 tokens")
        messages = daemon.asked("/v1/chat/completions")[1].json["messages"]
        assert [message["content"] for message in messages] == ["g"]


async def test_chat_commands_work_and_leaving_gives_the_keys_back(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting(), keys=("6",)) as (app, pilot):
        app.view.query_one(Input).value = "/draft off"
        await pilot.press("enter")
        await until_shown(pilot, "Turn.-note", "drafting for this chat: off")
        await pilot.press("escape", "2")
        await until(pilot, lambda: app.current_mode == "requests")
        await pilot.press("6")
        app.view.query_one(Input).value = "/quit"
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "overview")


# Questions


@pytest.mark.parametrize(("keys", "agreed"), [("y", True), ("n", False), ("escape", False), ("enter", False)])
async def test_a_question_is_answered_by_a_key(daemon: DaemonDouble, keys: str, agreed: bool) -> None:
    answers: list[bool | None] = []
    async with watching(daemon, betting()) as (app, pilot):
        app.push_screen(Confirm("cancel a request", "chatcmpl-1 ends with an error", "cancel it"), answers.append)
        await until(pilot, lambda: any("y  cancel it" in row for row in screen_text(app)))
        assert any("chatcmpl-1 ends with an error" in row for row in screen_text(app))
        await pilot.press(keys)
        await until(pilot, lambda: bool(answers))
        assert answers == [agreed]


async def test_a_question_is_answered_by_a_click(daemon: DaemonDouble) -> None:
    answers: list[bool | None] = []
    async with watching(daemon, betting()) as (app, pilot):
        app.push_screen(Confirm("reload", "the draft model is read again"), answers.append)
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.pause()
        await pilot.click("#yes")
        await until(pilot, lambda: answers == [True])
