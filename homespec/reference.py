"""`python -m homespec.reference FOLDER`: the pages of the documentation that are printed by the program itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from homespec.cli import app
from homespec.config.example import example

_WIDTH = 100
_HEAD = """\
# Every command

Printed by `--help`; `make docs` writes this page. What they are for is in [commands.md](commands.md).
"""


def files() -> dict[str, str]:
    """Text by name."""
    return {"help.md": help_page(), "config.example.toml": example()}


def help_page() -> str:
    """The help of each command below its name."""
    root: Any = typer.main.get_command(app)
    parts = [f"## {name}\n\n```\n{text}\n```\n" for name, text in _helps(root, _context(root, "homespec", None))]
    return "\n".join([_HEAD, *parts])


def _helps(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    """The command and everything below it, each with its help text."""
    yield context.command_path, command.get_help(context).rstrip()
    for name, child in getattr(command, "commands", {}).items():
        yield from _helps(child, _context(child, name, context))


def _context(command: Any, name: str, parent: Any) -> Any:
    """At a width that no terminal decides."""
    return command.context_class(
        command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH
    )


def main(folder: Path) -> None:
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
