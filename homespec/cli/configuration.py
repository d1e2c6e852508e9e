"""config show, config example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer(name="config", help="The configuration.", no_args_is_help=True)


@commands.command("show")
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Where each value came from.")] = False,
    profile: Annotated[str | None, typer.Option(help="As for serve.")] = None,
    file: Annotated[Path | None, typer.Option("--config", help="Configuration file (TOML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Values and origins, for programs.")] = False,
) -> None:
    """Print every setting in effect."""
    from homespec.config import load_layers, report

    layers = load_layers({} if profile is None else {"profile": profile}, file)
    print(report.as_json(layers) if as_json else report.as_text(layers, with_origin=origin))


@commands.command("example")
def print_example() -> None:
    """Print a configuration file with every key, its meaning and its default."""
    from homespec.config.example import example

    print(example(), end="")
