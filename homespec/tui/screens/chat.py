"""A chat with the daemon: the answer as it streams, accepted draft tokens marked, its numbers beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker

from homespec.client.drafted import progress_in
from homespec.client.failures import describe
from homespec.client.http import Client
from homespec.errors import HomespecError
from homespec.tui.chat.commands import ChatState, obey
from homespec.tui.chat.conversation import Conversation
from homespec.tui.chat.live import LiveAnswer
from homespec.tui.chat.report import ChatTotals, answer_line
from homespec.tui.chat.settings import Settings
from homespec.tui.screens.view import View
from homespec.tui.watch import Watch
from homespec.tui.widgets.chat_stats import ChatStats
from homespec.tui.widgets.turn import Turn

DRAW_S = 0.1
"""An answer is drawn at most this often, however fast its tokens come."""
MAX_TURNS = 100
"""Entries that stay on the screen; the model is still told what came before."""


class ChatView(View):
    """One answer at a time; it goes on while another screen is shown."""

    NAME = "chat"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "stop / leave the box"),
        Binding("i", "write", "write"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._client: Client | None = None
        self._state = ChatState(Settings(), Conversation(), ChatTotals())
        self._live: LiveAnswer | None = None
        self._turn: Turn | None = None
        self._answering: Worker[None] | None = None

    def body(self) -> Iterator[Widget]:
        with Horizontal(id="chat"):
            with Vertical(id="conversation", classes="framed"):
                yield VerticalScroll(id="turns")
                yield Input(placeholder="your message; /help lists the commands", id="message", compact=True)
            yield ChatStats().data_bind(View.status)

    def on_mount(self) -> None:
        self.entitle("#conversation", "chat")
        self.query_one("#turns").anchor()
        self.set_interval(DRAW_S, self._draw)

    def entered(self) -> None:
        self.query_one(Input).focus()

    def fed(self, watch: Watch) -> None:
        self._client = watch.client

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if not text or self._is_answering:
            return
        event.input.clear()
        if text.startswith("/"):
            self._obey(text)
        elif self._client is not None:
            self._ask(self._client, text)

    def action_stop(self) -> None:
        """Stop the answer; without one, give the keys back to the dashboard."""
        if self._answering is not None and self._is_answering:
            self._answering.cancel()
        else:
            self.query_one("#turns").focus()

    def action_write(self) -> None:
        self.query_one(Input).focus()

    @property
    def _is_answering(self) -> bool:
        return self._live is not None and not self._live.is_done

    def _obey(self, text: str) -> None:
        if told := obey(text, self._state):
            self._say(Turn("note", told))
        if self._state.leaving:
            self._state.leaving = False
            self.query_one("#turns").focus()
            self.app.call_later(self.app.run_action, "show('overview')")

    def _ask(self, client: Client, text: str) -> None:
        self._live, self._turn = LiveAnswer(), Turn("model")
        self._state.conversation.ask(text)
        self._say(Turn("you", text), self._turn)
        self._answering = self.run_worker(self._answer(client, self._live), group="chat", exit_on_error=False)

    async def _answer(self, client: Client, live: LiveAnswer) -> None:
        """Stream one answer; whatever ends it, what has come stays."""
        failure = ""
        try:
            await self._stream(client, live)
        except HomespecError as error:
            failure = describe(error)
        except asyncio.CancelledError:
            live.answer.cancelled = True
            raise
        finally:
            live.is_done = True
            if self.query(ChatStats):  # else the app ends
                self._settle(live, failure)

    async def _stream(self, client: Client, live: LiveAnswer) -> None:
        body = self._state.conversation.body(self._state.settings)
        body["speculative"] = {**body.get("speculative", {}), "spans": True}
        async with aclosing(client.chat(body)) as chunks:
            async for data in chunks:
                live.add(live.answer.add(data), progress_in(data))

    def _settle(self, live: LiveAnswer, failure: str) -> None:
        """The answer is over: keep it for the next question, and tell its numbers or what went wrong."""
        conversation = self._state.conversation
        if failure or not live.answer.content:
            conversation.take_back()
        else:
            conversation.answer(live.answer.content)
        self._draw_answer(live)
        if failure:
            self._say(Turn("error", failure))
        elif numbers := answer_line(live.answer):
            self._state.totals.add(live.answer)
            self._say(Turn("note", numbers))
        self.query_one(ChatStats).show(live, self._state.totals)

    def _say(self, *turns: Turn) -> None:
        shown = self.query_one("#turns")
        shown.mount(*turns)
        for old in shown.query_children(Turn)[:-MAX_TURNS]:
            old.remove()

    def _draw(self) -> None:
        if self._live is not None and self._is_answering and self.is_current:
            self._draw_answer(self._live)
            self.query_one(ChatStats).show(self._live, self._state.totals)

    def _draw_answer(self, live: LiveAnswer) -> None:
        if self._turn is not None:
            self._turn.show(live.content())
