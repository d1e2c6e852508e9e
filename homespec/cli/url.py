"""The option that most commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[str, typer.Option("--url", envvar="HOMESPEC_URL", help="Where the daemon listens.")]
