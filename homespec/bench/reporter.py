"""Makes the report of a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.bench.options import Options
from homespec.bench.prompts import Prompt, categories_of
from homespec.bench.report import Group, Machine, Report
from homespec.bench.runner import WARM_UP, Run
from homespec.bench.sides import PLAIN, Side
from homespec.bench.summary import summarise
from homespec.status import Status


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
        machine=_machine(options, url, run.last_status),
        time_unix=time_unix,
        settings=_settings(options, prompts),
        sides=tuple(sides),
        overall=overall,
        categories=categories,
        failures=tuple(run.failures),
        notes=(*notes, *_notes(overall, sides, run)),
        verify_cost=run.costs.verify,
        trials=tuple(run.trials),
        ended_early=run.ended_early,
    )


def _machine(options: Options, url: str, status: Status | None) -> Machine:
    model = status.model if status else None
    memory = status.memory if status else None
    return Machine(
        homespec=status.version if status else "unknown",
        url=url,
        against=options.against,
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


def _notes(overall: Group, sides: Sequence[Side], run: Run) -> list[str]:
    notes = []
    for side in sides:
        result, compared = overall.sides.get(side.name), overall.comparison(side.name)
        if result and not result.drafted and side.drafter not in (None, "off") and side.max_draft_tokens != 0:
            reasons = [trial.turns[-1].reason for trial in run.trials if trial.side == side.name]
            notes.append(f"{side.name} drafted nothing: {reasons[-1]}")
        if compared and compared.num_identical < compared.num_pairs:
            differing = compared.num_pairs - compared.num_identical
            notes.append(
                f"{differing} of {compared.num_pairs} answers of {side.name} are not the text of {PLAIN}; "
                f"'homespec doctor --divergence' tells rounding from a fault"
            )
    if run.failures:
        notes.append(f"{len(run.failures)} answers were refused and count nowhere: {run.failures[0].message}")
    return notes + _disturbances(sides, run)


def _disturbances(sides: Sequence[Side], run: Run) -> list[str]:
    """What else the daemon did meanwhile."""
    first, last = run.first_status, run.last_status
    if first is None or last is None:
        return []
    ours = {side.name for side in sides if side.is_ours}
    asked = sum(len(trial.turns) for trial in run.trials if trial.side in ours)
    asked += len(WARM_UP) * len(ours) + sum(failure.side in ours for failure in run.failures)
    others = last.counters.requests - first.counters.requests - asked
    notes = []
    if others > 0:
        notes.append(f"the daemon answered {others} requests of others meanwhile: the times are not to be trusted")
    if last.engine.restarts > first.engine.restarts:
        notes.append(f"the engine was restarted meanwhile: {last.engine.last_exit}")
    return notes
