"""serve, and what is asked before: plan, pair."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from homespec.cli.given import given

commands = typer.Typer()


@commands.command()
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
    flags = given({name: value for name, value in locals().items() if name != "config"})
    from homespec.config import load_to_serve

    settings = load_to_serve(flags, config)
    from homespec.daemon import serve as run

    sys.exit(run(settings, lambda: load_to_serve(flags, config)))


@commands.command()
def plan(
    model: Annotated[str | None, typer.Argument(help="GGUF file of the target, or its name in a store.")] = None,
    draft: Annotated[list[str] | None, typer.Option(help="Draft GGUF to consider; may be given again.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Plan for the small model of the 'demo' extra.")] = False,
    profile: Annotated[
        str | None, typer.Option(help="Starting values for a class of box: a name, auto or off.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    ctx: Annotated[str | None, typer.Option(metavar="N", help="Tokens of context, or 'auto'.")] = None,
    slots: Annotated[str | None, typer.Option(metavar="N", help="Requests that run at the same time.")] = None,
    gpu_layers: Annotated[str | None, typer.Option(metavar="N", help="Layers on the GPU, or 'auto'.")] = None,
    kv_type: Annotated[str | None, typer.Option(help="auto, f16, bf16, q8_0, …")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number as JSON.")] = False,
) -> None:
    """Say what fits into this box and why, without loading anything."""
    values = {"model": model, "demo": demo or None, "profile": profile, "ctx": ctx, "slots": slots}
    values |= {"gpu_layers": gpu_layers, "kv_type": kv_type}
    from homespec.planning.commands import run_plan

    sys.exit(run_plan(given(values), config, draft or [], as_json=as_json))


@commands.command()
def pair(
    target: Annotated[str, typer.Argument(help="GGUF file of the target, or its name in a store.")],
    drafts: Annotated[list[str], typer.Argument(help="Draft GGUFs, or their names.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Say which draft models can draft for a target, and why not."""
    from homespec.planning.commands import run_pair

    sys.exit(run_pair(target, drafts, as_json=as_json))
