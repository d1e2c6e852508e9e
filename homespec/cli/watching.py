"""A daemon seen from a terminal: top, status, chat."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from homespec.cli.url import Url
from homespec.ports import DEFAULT_URL, DEFAULT_WEB_PORT

commands = typer.Typer()


@commands.command()
def top(
    url: Annotated[
        list[str] | None,
        typer.Option("--url", envvar="HOMESPEC_URL", help="Where a daemon listens; may be given again."),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Serve the dashboard as a web page on this machine.")] = False,
    web_port: Annotated[int, typer.Option(help="With --web: port of the page.", min=1, max=65535)] = DEFAULT_WEB_PORT,
) -> None:
    """Watch daemons: the live dashboard."""
    from homespec.tui import run_top, run_web

    urls = url or [DEFAULT_URL]
    sys.exit(run_web(urls, web_port) if web else run_top(urls, os.environ.get("HOMESPEC_API_KEY")))


@commands.command()
def status(
    url: Url = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="The whole snapshot as JSON.")] = False,
) -> None:
    """Print the daemon's state as one screen of plain text."""
    from homespec.client.page import show

    sys.exit(show(url, os.environ.get("HOMESPEC_API_KEY"), as_json=as_json))


@commands.command()
def chat(
    url: Url = DEFAULT_URL,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer.")] = None,
    speculative: Annotated[str | None, typer.Option(help="auto, off, or the name of a drafter.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model.")] = None,
) -> None:
    """Talk to the model in the terminal."""
    from homespec.tui import run_chat

    sys.exit(
        run_chat(
            url,
            os.environ.get("HOMESPEC_API_KEY"),
            system=system,
            temperature=temperature,
            max_tokens=max_tokens,
            speculative=speculative,
            model=model,
        )
    )
