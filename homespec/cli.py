"""The command line. stdout is for data, stderr for people; a fault is one line and a documented exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from homespec import __version__
from homespec.config import DEFAULT_URL, DEFAULT_WEB_PORT, load
from homespec.errors import ExitCode, HomespecError
from homespec.units import one_line

app = typer.Typer(
    name="homespec",
    help="A home language-model daemon that drafts tokens only when it fits and only when it pays.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# The base of all usage errors, of whichever click typer carries.
_UsageError: Any = typer.BadParameter.__mro__[1]

Url = Annotated[str, typer.Option("--url", envvar="HOMESPEC_URL", help="Where the daemon listens.")]


@app.command()
def serve(
    model: Annotated[str | None, typer.Argument(help="GGUF file of the target.")] = None,
    draft: Annotated[str | None, typer.Option(help="Draft GGUF, 'auto' (free drafters) or 'off'.")] = None,
    max_draft_tokens: Annotated[str | None, typer.Option(metavar="N", help="Most tokens drafted per round.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the small model of the 'demo' extra.")] = False,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    ctx: Annotated[str | None, typer.Option(metavar="N", help="Tokens of context, or 'auto'.")] = None,
    slots: Annotated[str | None, typer.Option(metavar="N", help="Requests that run at the same time.")] = None,
    threads: Annotated[str | None, typer.Option(metavar="N", help="CPU threads, or 'auto'.")] = None,
    gpu_layers: Annotated[str | None, typer.Option(metavar="N", help="Layers on the GPU, or 'auto'.")] = None,
    kv_type: Annotated[str | None, typer.Option(help="auto, f16, bf16, q8_0, …")] = None,
    flash_attention: Annotated[str | None, typer.Option(help="auto, on or off.")] = None,
    exactness: Annotated[str | None, typer.Option(help="auto, strict or fast.")] = None,
    model_id: Annotated[str | None, typer.Option(help="Name that clients use for the model.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; both loopbacks by default.")] = None,
    port: Annotated[str | None, typer.Option(metavar="N", help="Port to listen on.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with one API key per line.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without a key.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Serve a model."""
    # 0 is a value: only what is None, and a switch that is off, was not given.
    flags = {
        name: value for name, value in locals().items() if name != "config" and not (value is None or value is False)
    }
    for name in ("max_draft_tokens", "ctx", "slots", "threads", "gpu_layers", "port"):
        if name in flags:
            flags[name] = _number_or_word(flags[name])
    settings = load(flags, config)
    from homespec.daemon import serve as run

    sys.exit(run(settings))


@app.command()
def top(
    url: Url = DEFAULT_URL,
    web: Annotated[bool, typer.Option("--web", help="Serve the dashboard as a web page on this machine.")] = False,
    web_port: Annotated[int, typer.Option(help="With --web: port of the page.", min=1, max=65535)] = DEFAULT_WEB_PORT,
) -> None:
    """Watch a daemon: the live dashboard."""
    from homespec.tui import run_top, run_web

    sys.exit(run_web(url, web_port) if web else run_top(url, os.environ.get("HOMESPEC_API_KEY")))


@app.command()
def status(
    url: Url = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="The whole snapshot as JSON.")] = False,
) -> None:
    """Print the daemon's state as one screen of plain text."""
    from homespec.client.page import show

    sys.exit(show(url, os.environ.get("HOMESPEC_API_KEY"), as_json=as_json))


@app.command()
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


@app.command()
def doctor(
    url: Url = DEFAULT_URL,
    divergence: Annotated[bool, typer.Option("--divergence", help="Compare plain and drafted answers.")] = False,
    drafter: Annotated[str, typer.Option(help="With --divergence: the drafter to compare.")] = "auto",
    prompts: Annotated[int, typer.Option(help="With --divergence: number of prompts.", min=1)] = 12,
    max_tokens: Annotated[int, typer.Option(help="With --divergence: longest answer.", min=1)] = 128,
    max_draft_tokens: Annotated[int, typer.Option(help="With --divergence: D.", min=1, max=16)] = 7,
) -> None:
    """Say what this box can do; with --divergence, prove that drafting changes no answer."""
    from homespec.doctor.examination import examine, examine_divergence

    key = os.environ.get("HOMESPEC_API_KEY")
    if not divergence:
        sys.exit(examine(url, key))
    sys.exit(
        examine_divergence(
            url, key, drafter=drafter, num_prompts=prompts, max_tokens=max_tokens, max_draft_tokens=max_draft_tokens
        )
    )


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point. Errors raised on purpose become one line and their exit code; bugs keep their traceback."""
    try:
        app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except HomespecError as error:
        _complain(str(error), error.exit_code)
    except _UsageError as error:
        _complain(f"{error.format_message().rstrip('.')}. See 'homespec --help'", ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output is done; Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)


def _complain(message: str, code: ExitCode) -> None:
    print(f"homespec: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def _number_or_word(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text
