"""The command line. stdout is for data, stderr for people; a fault is one line and a documented exit code.

A command imports what it runs when it runs: help and status must not wait for the settings, the store or the dashboard.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from homespec import __version__
from homespec.errors import ConfigError, ExitCode, HomespecError
from homespec.ports import DEFAULT_URL, DEFAULT_WEB_PORT
from homespec.service.commands import service
from homespec.stats import MAX_DRAFT_TOKENS
from homespec.units import one_line

app = typer.Typer(
    name="homespec",
    help="A home language-model daemon that drafts tokens only when it fits and only when it pays.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(service, name="service")
config_app = typer.Typer(help="The configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")

# The base of all usage errors, of whichever click typer carries.
_UsageError: Any = typer.BadParameter.__mro__[1]

Url = Annotated[str, typer.Option("--url", envvar="HOMESPEC_URL", help="Where the daemon listens.")]


@app.command()
def serve(
    model: Annotated[str | None, typer.Argument(help="GGUF file of the target, or its name in a store.")] = None,
    draft: Annotated[
        str | None, typer.Option(help="Draft GGUF, 'auto' (what costs nothing, fits or pays) or 'off'.")
    ] = None,
    max_draft_tokens: Annotated[str | None, typer.Option(metavar="N", help="Most tokens drafted per round.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the small model of the 'demo' extra.")] = False,
    profile: Annotated[
        str | None, typer.Option(help="Starting values for a class of box: a name, auto or off.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    ctx: Annotated[str | None, typer.Option(metavar="N", help="Tokens of context, or 'auto'.")] = None,
    slots: Annotated[str | None, typer.Option(metavar="N", help="Requests that run at the same time.")] = None,
    threads: Annotated[str | None, typer.Option(metavar="N", help="CPU threads, or 'auto'.")] = None,
    gpu_layers: Annotated[str | None, typer.Option(metavar="N", help="Layers on the GPU, or 'auto'.")] = None,
    kv_type: Annotated[str | None, typer.Option(help="auto, f16, bf16, q8_0, …")] = None,
    flash_attention: Annotated[str | None, typer.Option(help="auto, on or off.")] = None,
    fit: Annotated[str | None, typer.Option(help="auto, or off: load without asking whether it fits.")] = None,
    exactness: Annotated[str | None, typer.Option(help="auto, strict or fast.")] = None,
    model_id: Annotated[str | None, typer.Option(help="Name that clients use for the model.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; both loopbacks by default.")] = None,
    port: Annotated[str | None, typer.Option(metavar="N", help="Port to listen on.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with one API key per line.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without a key.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Serve a model."""
    flags = _flags({name: value for name, value in locals().items() if name != "config"})
    from homespec.config import load

    settings = load(flags, config)
    from homespec.daemon import serve as run

    sys.exit(run(settings, lambda: load(flags, config)))


@app.command()
def plan(
    model: Annotated[str | None, typer.Argument(help="GGUF file of the target.")] = None,
    draft: Annotated[list[str] | None, typer.Option(help="Draft GGUF to consider; may be given again.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Plan for the small model of the 'demo' extra.")] = False,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    ctx: Annotated[str | None, typer.Option(metavar="N", help="Tokens of context, or 'auto'.")] = None,
    slots: Annotated[str | None, typer.Option(metavar="N", help="Requests that run at the same time.")] = None,
    gpu_layers: Annotated[str | None, typer.Option(metavar="N", help="Layers on the GPU, or 'auto'.")] = None,
    kv_type: Annotated[str | None, typer.Option(help="auto, f16, bf16, q8_0, …")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number as JSON.")] = False,
) -> None:
    """Say what fits into this box and why, without loading anything."""
    values = {"model": model, "demo": demo or None, "ctx": ctx, "slots": slots}
    values |= {"gpu_layers": gpu_layers, "kv_type": kv_type}
    from homespec.planning.commands import run_plan

    sys.exit(run_plan(_flags(values), config, draft or [], as_json=as_json))


@app.command()
def pair(
    target: Annotated[str, typer.Argument(help="GGUF file of the target.")],
    drafts: Annotated[list[str], typer.Argument(help="Draft GGUFs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Say which draft models can draft for a target, and why not."""
    from homespec.planning.commands import run_pair

    sys.exit(run_pair(target, drafts, as_json=as_json))


@app.command()
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
    url: Annotated[
        str | None, typer.Option("--url", envvar="HOMESPEC_URL", help="Where the daemon listens; as configured.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a bug report; nothing private is in it.")] = False,
    divergence: Annotated[bool, typer.Option("--divergence", help="Compare plain and drafted answers.")] = False,
    drafter: Annotated[str, typer.Option(help="With --divergence: the drafter to compare.")] = "auto",
    prompts: Annotated[int, typer.Option(help="With --divergence: number of prompts.", min=1)] = 12,
    max_tokens: Annotated[int, typer.Option(help="With --divergence: longest answer.", min=1)] = 128,
    max_draft_tokens: Annotated[int, typer.Option(help="With --divergence: D.", min=1, max=MAX_DRAFT_TOKENS)] = 7,
) -> None:
    """Look for what usually goes wrong, and say what to do about it.

    With --divergence: compare plain and drafted answers instead.
    """
    key = os.environ.get("HOMESPEC_API_KEY")
    if not divergence:
        from homespec.doctor.examination import examine

        sys.exit(examine(url, key, config, as_json_text=as_json))
    from homespec.doctor.comparison import examine_divergence

    sys.exit(
        examine_divergence(
            url or DEFAULT_URL,
            key,
            drafter=drafter,
            num_prompts=prompts,
            max_tokens=max_tokens,
            max_draft_tokens=max_draft_tokens,
        )
    )


@app.command()
def derive(
    model: Annotated[Path, typer.Argument(help="GGUF file of the target.")],
    quant: Annotated[str | None, typer.Option(help="Fewer bits: Q2_K, Q3_K_M, Q4_0, …")] = None,
    keep_layers: Annotated[str | None, typer.Option(metavar="LIST", help="Fewer layers: 0-9,28-29.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where to write it; beside the model by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    prompts: Annotated[int, typer.Option(help="Prompts to measure it on; 0: do not.", min=0, max=4)] = 4,
) -> None:
    """Make a smaller copy of a model that drafts for it, and say how often it is right."""
    from homespec.derive.making import derive as make
    from homespec.derive.recipe import parse

    make(model, parse(quant, keep_layers), output=output, force=force, num_prompts=prompts)


@app.command()
def bench(
    model: Annotated[
        str | None, typer.Argument(help="GGUF file to serve for the bench; none: the daemon at --url.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="With MODEL: draft GGUF, 'auto' or 'off'.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the small model of the 'demo' extra.")] = False,
    url: Url = DEFAULT_URL,
    against: Annotated[str | None, typer.Option(metavar="URL", help="Another OpenAI server to compare with.")] = None,
    against_model: Annotated[str | None, typer.Option(metavar="NAME", help="Which of its models.")] = None,
    drafter: Annotated[str, typer.Option(help="What drafts: names with commas.")] = "auto",
    max_draft_tokens: Annotated[int | None, typer.Option(metavar="D", help="Most tokens drafted per round.")] = None,
    sweep: Annotated[str | None, typer.Option(help="Compare several D: D=0,1,2,3,5,7,11,15.")] = None,
    categories: Annotated[str | None, typer.Option(help="Names with commas; all by default.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="JSON lines, JSON or parquet.")] = None,
    per_category: Annotated[int | None, typer.Option(metavar="N", help="Prompts per category; all.", min=1)] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest answer; 128.", min=1)] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0, max=100)] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the sampler and of the order.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="5 prompts per category, 64 tokens.")] = False,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the numbers; '-' is stdout.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with plots.")] = None,
) -> None:
    """Measure whether drafting pays: the same prompts plain and drafted, in turns."""
    from homespec.bench import options
    from homespec.bench.command import bench as run

    if draft is not None and model is None and not demo:
        raise ConfigError("--draft is for a daemon of the bench's own: name a MODEL, or leave --draft out")
    serve = [*([model] if model else []), *(["--demo"] if demo else []), *(["--draft", draft] if draft else [])]
    sys.exit(
        run(
            options.Options(
                url=url,
                serve=tuple(serve),
                api_key=os.environ.get("HOMESPEC_API_KEY"),
                against=against,
                against_key=os.environ.get("OPENAI_API_KEY"),
                against_model=against_model,
                drafters=options.split_names(drafter) or ("auto",),
                max_draft_tokens=max_draft_tokens,
                sweep=options.parse_sweep(sweep) if sweep is not None else (),
                categories=options.split_names(categories),
                prompts=prompts,
                per_category=per_category or (options.QUICK_PER_CATEGORY if quick else options.PER_CATEGORY),
                max_tokens=max_tokens or (options.QUICK_MAX_TOKENS if quick else options.MAX_TOKENS),
                temperature=temperature,
                seed=seed,
                json=json,
                html=html,
            )
        )
    )


@app.command()
def models(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """List the models on this machine, of other programs too."""
    from homespec.store.commands import print_models

    sys.exit(print_models(as_json=as_json))


@app.command()
def pull(model: Annotated[str, typer.Argument(metavar="REPO[:QUANT|FILE]", help="On the Hugging Face hub.")]) -> None:
    """Fetch a model from the Hugging Face hub."""
    from homespec.store.commands import pull_model

    sys.exit(pull_model(model))


@app.command()
def rm(name: Annotated[str, typer.Argument(help="As 'homespec models' lists it.")]) -> None:
    """Delete a model that was pulled."""
    from homespec.store.commands import remove_model

    sys.exit(remove_model(name))


@app.command()
def profiles(
    action: Annotated[str | None, typer.Argument(metavar="[show]", help="'show' prints one with its reasons.")] = None,
    name: Annotated[str | None, typer.Argument(help="The profile to show; the one for this box by default.")] = None,
) -> None:
    """List the profiles for classes of boxes, and which one suits this box."""
    from homespec.profiles.show import run

    print(run(action, name))


@config_app.command("show")
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Where each value came from.")] = False,
    profile: Annotated[str | None, typer.Option(help="As for serve.")] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Values and origins, for programs.")] = False,
) -> None:
    """Print every setting in effect."""
    from homespec.config import load_layers, report

    layers = load_layers({} if profile is None else {"profile": profile}, config)
    print(report.as_json(layers) if as_json else report.as_text(layers, with_origin=origin))


@config_app.command("example")
def config_example() -> None:
    """Print a configuration file with every key, its meaning and its default."""
    from homespec.config.example import example

    print(example(), end="")


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


def _flags(values: dict[str, Any]) -> dict[str, Any]:
    """What was given. 0 is a value: only what is None, and a switch that is off, was not."""
    given = {name: value for name, value in values.items() if not (value is None or value is False)}
    for name in ("max_draft_tokens", "ctx", "slots", "threads", "gpu_layers", "port"):
        if name in given:
            given[name] = _number_or_word(given[name])
    return given


def _number_or_word(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text
