"""What the daemon orders of the drafters, done to the roster. Running answers go on, and keep their text."""

from __future__ import annotations

from homespec.engine.drafters.roster import Roster
from homespec.frames import Admit, DrafterOrder, Readmit, ReloadDrafter, SetDrafter, Withdraw


def obey(roster: Roster, order: DrafterOrder) -> None:
    """On the scheduler's thread, between two rounds."""
    match order:
        case SetDrafter(mode):
            roster.set_mode(mode)
        case Withdraw(reason):
            roster.withdraw(reason)
        case Readmit():
            roster.readmit()
        case Admit():
            roster.admit()
        case ReloadDrafter():
            roster.reload()
