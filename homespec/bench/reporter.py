"""Makes the report of a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.bench.notes import make_notes
from homespec.bench.options import Options
from homespec.bench.prompts import Prompt, categories_of
from homespec.bench.report import Machine, Report
from homespec.bench.runner import WARM_UP, Run
from homespec.bench.sides import Side
from homespec.bench.summary import summarise


def make_report(
    options: Options,
    url: str,
    prompts: Sequence[Prompt],
    sides: Sequence[Side],
    run: Run,
    time_unix: float,
    *,
    notes: Sequence[str] = (),
) -> Report:
    """notes: what is to be known of the prompts."""
    overall, categories = summarise(run.trials, sides)
    return Report(
        machine=_machine(options, url, run),
        time_unix=time_unix,
        settings=_settings(options, prompts),
        sides=tuple(sides),
        overall=overall,
        categories=categories,
        failures=tuple(run.failures),
        notes=(*notes, *make_notes(overall, sides, run)),
        verify_cost=run.costs.verify,
        trials=tuple(run.trials),
        ended_early=run.ended_early,
        ended_code=run.ended_code,
    )


def _machine(options: Options, url: str, run: Run) -> Machine:
    status = run.last_status
    model = status.model if status else None
    memory = status.memory if status else None
    return Machine(
        homespec=status.version if status else "unknown",
        url=url,
        against=options.against,
        against_model=run.against_model,
        model=model.id if model else None,
        description=model.description if model else None,
        devices=model.devices if model else (),
        threads=model.threads if model else None,
        n_ctx=model.n_ctx if model else None,
        kv_type=model.kv_type if model else None,
        exactness=status.exactness if status else "unknown",
        exactness_reason=status.exactness_reason if status else "the daemon did not answer",
        target_bytes=memory.target.total_bytes if memory else None,
        drafter_bytes=memory.drafter.total_bytes if memory else None,
    )


def _settings(options: Options, prompts: Sequence[Prompt]) -> dict[str, object]:
    return {
        "prompts": str(options.prompts) if options.prompts else "our own set",
        "num_prompts": len(prompts),
        "num_turns": sum(len(prompt.turns) for prompt in prompts),
        "categories": ", ".join(categories_of(prompts)),
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "seed": options.seed,
        "max_draft_tokens": options.max_draft_tokens,
        "warm_up": f"{len(WARM_UP)} prompts of their own on every side",
    }
