"""What is on this machine: models, pull, rm, profiles, version."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from homespec import __version__

commands = typer.Typer()


@commands.command()
def models(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """List the models on this machine, of other programs too."""
    from homespec.store.commands import print_models

    sys.exit(print_models(as_json=as_json))


@commands.command()
def pull(model: Annotated[str, typer.Argument(metavar="REPO[:QUANT|FILE]", help="On the Hugging Face hub.")]) -> None:
    """Fetch a model from the Hugging Face hub."""
    from homespec.store.commands import pull_model

    sys.exit(pull_model(model))


@commands.command()
def rm(name: Annotated[str, typer.Argument(help="As 'homespec models' lists it.")]) -> None:
    """Delete a model that was pulled."""
    from homespec.store.commands import remove_model

    sys.exit(remove_model(name))


@commands.command()
def profiles(
    action: Annotated[str | None, typer.Argument(metavar="[show]", help="'show' prints one with its reasons.")] = None,
    name: Annotated[str | None, typer.Argument(help="The profile to show; the one for this box by default.")] = None,
) -> None:
    """List the profiles for classes of boxes, and which one suits this box."""
    from homespec.profiles.show import run

    print(run(action, name))


@commands.command()
def version() -> None:
    """Print the version."""
    print(__version__)
