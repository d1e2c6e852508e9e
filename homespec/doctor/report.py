"""What was found, as lines for people and as JSON for a bug report."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

from homespec import __version__
from homespec.doctor.check import Check, Verdict
from homespec.doctor.privacy import Privacy
from homespec.units import one_line

_NAME_WIDTH = 14


def cleaned(checks: Iterable[Check], privacy: Privacy) -> list[Check]:
    """The same with nothing private in it, one line each."""

    def clean(text: str) -> str:
        return one_line(privacy.clean(text))

    return [
        replace(check, text=clean(check.text), remedy=None if check.remedy is None else clean(check.remedy))
        for check in checks
    ]


def as_lines(checks: Iterable[Check]) -> Iterator[str]:
    """A line per check, and one per remedy; the last line counts them."""
    counts = dict.fromkeys(Verdict, 0)
    for check in checks:
        counts[check.verdict] += 1
        yield f"{check.verdict:5} {check.name:{_NAME_WIDTH}} {check.text}"
        if check.remedy:
            yield f"{'':5} {'':{_NAME_WIDTH}} → {check.remedy}"
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def as_json(checks: Iterable[Check]) -> str:
    """For a bug report: versions and every check."""
    return json.dumps(
        {
            "homespec": __version__,
            "python": sys.version.split()[0],
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "checks": [asdict(check) for check in checks],
        },
        indent=2,
        ensure_ascii=False,
    )
