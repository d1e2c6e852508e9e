"""The turns so far, and the request body that carries them."""

from __future__ import annotations

from typing import Any

from homespec.tui.chat.settings import Settings


class Conversation:
    """Alternating turns of user and assistant. A turn whose answer failed is taken back."""

    def __init__(self) -> None:
        self._turns: list[dict[str, str]] = []

    def __len__(self) -> int:
        return len(self._turns)

    def ask(self, text: str) -> None:
        self._turns.append({"role": "user", "content": text})

    def answer(self, text: str) -> None:
        self._turns.append({"role": "assistant", "content": text})

    def take_back(self) -> None:
        """Forget the last question."""
        self._turns.pop()

    def reset(self) -> None:
        self._turns.clear()

    def body(self, settings: Settings) -> dict[str, Any]:
        """A streaming request for the next answer; settings that are None stay out of it."""
        system = [{"role": "system", "content": settings.system}] if settings.system else []
        fields = {
            "model": settings.model,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "speculative": {"mode": settings.speculative} if settings.speculative else None,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        return {"messages": [*system, *self._turns], "stream": True, **present}
