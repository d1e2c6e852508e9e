"""The report as JSON: everything but the texts of the answers."""

from __future__ import annotations

import msgspec

from homespec.bench.report import Report


def render_json(report: Report) -> str:
    """One object, indented; unknown is null."""
    body = msgspec.to_builtins(report)
    for trial in body["trials"]:
        for turn in trial["turns"]:
            del turn["text"]
    body["exit_code"] = report.exit_code
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
