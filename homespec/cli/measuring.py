"""Finding out, and making what helps: doctor, derive, bench."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from homespec.cli.url import Url
from homespec.errors import ConfigError
from homespec.ports import DEFAULT_URL
from homespec.stats import MAX_DRAFT_TOKENS

commands = typer.Typer()


@commands.command()
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
            url,
            key,
            config,
            drafter=drafter,
            num_prompts=prompts,
            max_tokens=max_tokens,
            max_draft_tokens=max_draft_tokens,
            as_json=as_json,
        )
    )


@commands.command()
def derive(
    model: Annotated[str, typer.Argument(help="GGUF file of the target, or its name in a store.")],
    quant: Annotated[str | None, typer.Option(help="Fewer bits: Q2_K, Q3_K_M, Q4_0, …")] = None,
    keep_layers: Annotated[str | None, typer.Option(metavar="LIST", help="Fewer layers: 0-9,28-29.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where to write it; beside the model by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    prompts: Annotated[int, typer.Option(help="Prompts to measure it on; 0: do not.", min=0, max=4)] = 4,
) -> None:
    """Make a smaller copy of a model that drafts for it, and say how often it is right."""
    from homespec.config import load
    from homespec.derive.making import derive as make
    from homespec.derive.recipe import parse
    from homespec.store.model_file import find

    make(find(model, load({}).models_dir), parse(quant, keep_layers), output=output, force=force, num_prompts=prompts)


@commands.command()
def bench(
    model: Annotated[
        str | None, typer.Argument(help="GGUF file to serve for the bench; none: the daemon at --url.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="With MODEL: draft GGUF, 'auto' or 'off'.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the small model of the 'demo' extra.")] = False,
    url: Url = DEFAULT_URL,
    against: Annotated[str | None, typer.Option(metavar="URL", help="Another OpenAI server to compare with.")] = None,
    against_model: Annotated[str | None, typer.Option(metavar="NAME", help="Which of its models.")] = None,
    against_timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Longest silence of that server; 600.", min=1)
    ] = None,
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
                against_timeout_s=against_timeout or options.AGAINST_TIMEOUT_S,
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
