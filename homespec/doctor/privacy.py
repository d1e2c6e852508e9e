"""Taking out of a text what belongs to a person: a report is made to be shown to others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_HOMES = re.compile(r"(?<![\w.])(/(?:var/)?home|/Users)/[^/\s:;,'\"]+")
_SHARED_NAMES = frozenset({"", "root", "homespec", "nobody"})
"""Users that are nobody in particular, and whose names are words of other things."""
_SHORTEST_SECRET = 4
"""A shorter one would take letters out of words."""


@dataclass(frozen=True, slots=True)
class Privacy:
    """What is private on this box."""

    home: str | None
    user: str
    host: str
    secrets: tuple[str, ...]

    @classmethod
    def of(
        cls, home: str | None, user: str, host: str, environment: Mapping[str, str], keys: Iterable[str] = ()
    ) -> Privacy:
        """`keys`: those of the configuration. Variables whose names say so are secret too."""
        values = [value for name, value in environment.items() if _SECRETS.search(name)]
        secrets = {value for value in (*values, *keys) if len(value) >= _SHORTEST_SECRET}
        return cls(home, user, host, tuple(sorted(secrets, key=len, reverse=True)))

    def clean(self, text: str) -> str:
        """Home folders as `~`, other people's as `/home/…`, and neither keys nor names of user and machine."""
        for secret in self.secrets:
            text = text.replace(secret, "(secret)")
        if self.home and self.home != "/":
            text = re.sub(rf"(?<![\w./]){re.escape(self.home.rstrip('/'))}(?=$|[/\s:;,'\")])", "~", text)
        text = _HOMES.sub(r"\1/…", text)
        for name, stands_for in ((self.user, "(user)"), (self.host, "(host)")):
            if name not in _SHARED_NAMES and name != "localhost":
                text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stands_for, text)
        return text
