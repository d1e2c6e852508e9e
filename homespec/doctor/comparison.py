"""`homespec doctor --divergence`: plain against drafted answers, a line per prompt and a verdict, or JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    as_json: bool = False,
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
    return asyncio.run(_told(comparisons, as_json=as_json))


async def _told(comparisons_to_come: AsyncIterator[Comparison], *, as_json: bool) -> ExitCode:
    """As text, each when it is made; as JSON all at the end."""
    comparisons = []
    async for comparison in comparisons_to_come:
        comparisons.append(comparison)
        if not as_json:
            print(f"{comparison}   {comparison.prompt[:48]!r}", flush=True)
    verdict = _verdict(comparisons)
    print(json.dumps(_facts(comparisons, verdict), indent=2) if as_json else verdict.text)
    return ExitCode.OK if verdict.is_ok else ExitCode.FAILURE


@dataclass(frozen=True, slots=True)
class _Verdict:
    is_ok: bool
    text: str


def _verdict(comparisons: Sequence[Comparison]) -> _Verdict:
    same = sum(comparison.is_same for comparison in comparisons)
    rounding = sum(comparison.is_rounding for comparison in comparisons)
    different = len(comparisons) - same - rounding
    text = f"{same} of {len(comparisons)} the same, {rounding} differ by rounding, {different} differ by more"
    if not any(comparison.num_drafted for comparison in comparisons):
        nothing = f"nothing was drafted, so this proves nothing ({comparisons[-1].reason}); name another --drafter"
        return _Verdict(False, f"{text}\n{nothing}")
    return _Verdict(not different, text)


def _facts(comparisons: Sequence[Comparison], verdict: _Verdict) -> dict[str, Any]:
    each = [asdict(comparison) | {"is_rounding": comparison.is_rounding} for comparison in comparisons]
    return {"is_ok": verdict.is_ok, "text": verdict.text, "comparisons": each}
