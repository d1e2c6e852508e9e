"""What a user asks of the daemon, and what to tell them about the answer."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.client.failures import describe
from homespec.client.http import Client
from homespec.errors import HomespecError
from homespec.units import clean


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer in one line."""

    text: str
    refused: bool = False


async def set_drafter(client: Client, mode: str) -> Outcome:
    """Switch drafting for the whole daemon to auto, off, or a drafter."""
    try:
        answer = await client.set_drafter(mode)
    except HomespecError as error:
        return Outcome(f"{mode} was refused: {describe(error)}", refused=True)
    return Outcome(_switched(mode, answer))


async def cancel_request(client: Client, request_id: str) -> Outcome:
    """End a request in flight."""
    try:
        await client.cancel_request(request_id)
    except HomespecError as error:
        return Outcome(f"{request_id} was not cancelled: {describe(error)}", refused=True)
    return Outcome(f"{clean(request_id)} is cancelled")


async def reload_drafter(client: Client) -> Outcome:
    """Have the draft model loaded anew."""
    try:
        answer = await client.reload_drafter()
    except HomespecError as error:
        return Outcome(f"not reloaded: {describe(error)}", refused=True)
    reason = answer.get("reason")
    return Outcome(clean(f"is kept out: {reason}" if reason else "is being loaded again"))


def _switched(mode: str, answer: dict[str, object]) -> str:
    """What the daemon said, from the fields that it is known to answer with."""
    drafter, state, reason = (answer.get(key) for key in ("drafter", "state", "reason"))
    parts = [f"mode {answer.get('mode', mode)}", f"drafter {drafter}" if drafter else "", state, reason]
    return clean(" · ".join(str(part) for part in parts if part))
