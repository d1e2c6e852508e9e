"""The two terminal clients of the daemon: the dashboard (`homespec top`) and the chat (`homespec chat`).

They talk HTTP only, so they run on a machine that has no engine. Imports are deferred: the chat does not load Textual.
"""

from __future__ import annotations

from collections.abc import Sequence

from homespec.errors import HomespecError


def run_top(urls: Sequence[str], api_key: str | None = None) -> int:
    """Show the dashboard of the daemons at `urls`, the first in front, until the user quits; returns an exit code."""
    from homespec.tui.app import run

    return run(urls, api_key)


def run_web(urls: Sequence[str], port: int) -> int:
    """Serve the dashboard of the daemons at `urls` as a web page on loopback until Ctrl-C; returns an exit code.

    Raises HomespecError when the `web` extra is missing or the port is taken.
    """
    try:
        from homespec.tui.web import run
    except ModuleNotFoundError as error:
        raise HomespecError(
            f"the dashboard in a browser needs {error.name}; "
            f"in the checkout: pip install '.[web]', or see docs/install.md"
        ) from error
    return run(urls, port)


def run_chat(
    url: str,
    api_key: str | None = None,
    *,
    system: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    speculative: str | None = None,
    model: str | None = None,
) -> int:
    """Chat with the daemon at `url` over stdin and stdout; returns an exit code.

    `speculative` is auto, off or the name of a drafter. None leaves a setting to the daemon.
    """
    from homespec.tui.chat.session import run
    from homespec.tui.chat.settings import Settings

    return run(url, api_key, Settings(system, temperature, max_tokens, speculative, model))
