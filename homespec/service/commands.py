"""`homespec service …`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

service = typer.Typer(help="Run homespec as a service of this machine or of your user.", no_args_is_help=True)

System = Annotated[bool, typer.Option("--system", help="For the whole machine; else for your user.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be written and run.")]


@service.command()
def install(
    system: System = False,
    config: Annotated[Path | None, typer.Option(help="Configuration file that the service reads.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Write the service's files for this installation, and start it."""
    from homespec.service import manager

    sys.exit(manager.install(system=system, config=config, dry_run=dry_run))


@service.command()
def uninstall(system: System = False, dry_run: DryRun = False) -> None:
    """Stop the service and remove its files; configuration and models stay."""
    from homespec.service import manager

    sys.exit(manager.uninstall(system=system, dry_run=dry_run))


@service.command()
def status(system: System = False) -> None:
    """Print the service manager's view; exit code 0 only while it runs."""
    from homespec.service import manager

    sys.exit(manager.status(system=system))


@service.command()
def logs(
    system: System = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Lines to begin with.")] = 100,
) -> None:
    """Show the service's log."""
    from homespec.service import manager

    manager.logs(system=system, follow=follow, lines=lines)
