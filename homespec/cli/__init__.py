"""The command line. stdout is for data, stderr for people; a fault is one line and a documented exit code.

A command imports what it runs when it runs: help and status must not wait for the settings, the store or the dashboard.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, Any

import typer

from homespec import __version__
from homespec.cli import configuration, measuring, serving, stores, watching
from homespec.errors import ExitCode, HomespecError
from homespec.service.commands import service
from homespec.units import one_line

app = typer.Typer(
    name="homespec",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for part in (serving, watching, measuring, stores):
    app.add_typer(part.commands)
app.add_typer(service, name="service")
app.add_typer(configuration.commands)

# The base of all usage errors, of whichever click typer carries.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _homespec(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """A home language-model daemon that drafts tokens only when it fits and only when it pays."""


def main() -> None:
    """Entry point. Errors raised on purpose become one line and their exit code; bugs keep their traceback."""
    _open_standard_files()
    try:
        try:
            app(sys.argv[1:] or ["--help"], prog_name="homespec", standalone_mode=False)
        finally:
            sys.stdout.flush()  # here a fault of it is still one line
    except HomespecError as error:
        _complain(str(error), error.exit_code)
    except _UsageError as error:
        told = error.format_message()
        command = error.ctx.command_path if error.ctx else "homespec"
        _complain(f"{told}{'' if told.endswith(('.', '?')) else '.'} See '{command} --help'", ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        _drop_output()  # whoever read it is done
        sys.exit(ExitCode.OK)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_output()
        _complain(f"the output cannot be written: {error.strerror}; make room where it goes", ExitCode.FAILURE)


def _open_standard_files() -> None:
    """Those that were closed lead nowhere. Else the next socket takes their number, and libraries write into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _drop_output() -> None:
    """Python's own flush at exit must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: ExitCode) -> None:
    print(f"homespec: {one_line(message)}", file=sys.stderr)
    sys.exit(code)
