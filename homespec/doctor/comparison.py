"""`homespec doctor --divergence`: plain against drafted answers, a line per prompt and a verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from homespec.client.http import Client
from homespec.doctor.configuration import examine_configuration
from homespec.doctor.daemon import keys_of, url_of
from homespec.doctor.divergence import Comparison, compare
from homespec.doctor.prompts import PROMPTS
from homespec.errors import ExitCode


def examine_divergence(
    url: str | None,
    api_key: str | None,
    config_file: Path | None,
    *,
    drafter: str,
    num_prompts: int,
    max_tokens: int,
    max_draft_tokens: int,
) -> ExitCode:
    """FAILURE when an answer differs by more than rounding can explain, or when there was nothing to compare.

    url, api_key: None takes those of the configuration.
    """
    settings, _ = examine_configuration(config_file)
    comparisons = compare(
        Client(url or url_of(settings), api_key or next(iter(sorted(keys_of(settings))), None)),
        PROMPTS[:num_prompts],
        drafter=drafter,
        max_tokens=max_tokens,
        max_draft_tokens=max_draft_tokens,
    )
    return asyncio.run(_print_comparisons(comparisons))


async def _print_comparisons(comparisons_to_come: AsyncIterator[Comparison]) -> ExitCode:
    comparisons = []
    async for comparison in comparisons_to_come:
        comparisons.append(comparison)
        print(f"{comparison}   {comparison.prompt[:48]!r}", flush=True)
    same = sum(comparison.is_same for comparison in comparisons)
    rounding = sum(comparison.is_rounding for comparison in comparisons)
    different = len(comparisons) - same - rounding
    print(f"{same} of {len(comparisons)} the same, {rounding} differ by rounding, {different} differ by more")
    if not any(comparison.num_drafted for comparison in comparisons):
        print(f"nothing was drafted, so this proves nothing ({comparisons[-1].reason}); name another --drafter")
        return ExitCode.FAILURE
    return ExitCode.FAILURE if different else ExitCode.OK
