"""Lines that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from homespec.tui.chat.conversation import Conversation
from homespec.tui.chat.report import ChatTotals
from homespec.tui.chat.settings import Settings

HELP = """\
/help                  this list
/reset                 forget the conversation, keep the settings
/system TEXT           set the system message; without TEXT, drop it
/draft auto|off|NAME   what may draft for this chat; without a word, say it
/stats                 the numbers of this chat so far
/quit                  leave; so do Ctrl-D and Ctrl-C. Ctrl-C during an answer stops only the answer"""


@dataclass(slots=True)
class ChatState:
    """All that a command may look at or change."""

    settings: Settings
    conversation: Conversation
    totals: ChatTotals
    leaving: bool = False


def obey(line: str, state: ChatState) -> str:
    """Carry out a command; returns what to tell the person."""
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        return f"unknown command /{name}; /help lists them"
    return command(rest.strip(), state)


def _help(_: str, __: ChatState) -> str:
    return HELP


def _reset(_: str, state: ChatState) -> str:
    state.conversation.reset()
    return "the conversation is forgotten"


def _system(text: str, state: ChatState) -> str:
    state.settings.system = text or None
    return "system message set" if text else "no system message"


def _draft(mode: str, state: ChatState) -> str:
    if mode:
        state.settings.speculative = mode
    return f"drafting for this chat: {state.settings.speculative or 'as the daemon decides'}"


def _stats(_: str, state: ChatState) -> str:
    return state.totals.line()


def _quit(_: str, state: ChatState) -> str:
    state.leaving = True
    return ""


COMMANDS: dict[str, Callable[[str, ChatState], str]] = {
    "help": _help,
    "reset": _reset,
    "system": _system,
    "draft": _draft,
    "stats": _stats,
    "quit": _quit,
}
