"""The examination itself: facts of the installation, state of the daemon, and on request the comparison."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

from homespec import __version__
from homespec.client.http import Client
from homespec.doctor.divergence import Comparison, compare
from homespec.doctor.prompts import PROMPTS
from homespec.errors import ExitCode, HomespecError
from homespec.status import DraftState, Status

FACTS_TIMEOUT_S = 120


def examine(url: str, api_key: str | None) -> ExitCode:
    """Print what there is, one line each. FAILURE when the native library cannot be used."""
    print(f"homespec           {__version__}, Python {sys.version.split()[0]}")
    works = _print_library()
    _print_daemon(url, api_key)
    return ExitCode.OK if works else ExitCode.FAILURE


def examine_divergence(
    url: str, api_key: str | None, *, drafter: str, num_prompts: int, max_tokens: int, max_draft_tokens: int
) -> ExitCode:
    """Print a line per prompt and a verdict. FAILURE when an answer differs by more than rounding can explain."""
    comparisons = compare(
        Client(url, api_key),
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
    return ExitCode.FAILURE if different else ExitCode.OK


def _print_library() -> bool:
    facts = _facts()
    if "error" in facts:
        print(f"llama.cpp          cannot be used: {facts['error']}")
        return False
    print(f"llama-cpp-python   {facts['llama_cpp_python']}, llguidance {facts['llguidance']}, numpy {facts['numpy']}")
    print(f"devices            {', '.join(facts['devices'])}; {facts['threads']} threads by default")
    missing = ", ".join(facts["missing_symbols"])
    print(f"symbols            {'missing: ' + missing if missing else 'all that homespec binds are there'}")
    for name, lacking in facts["drafters"].items():
        print(f"can run {name:10} {'no: the library lacks ' + ', '.join(lacking) if lacking else 'yes'}")
    return True


def _facts() -> dict[str, Any]:
    """Asked of a process of its own: an abort of the library is an answer."""
    command = [sys.executable, "-P", "-m", "homespec.engine.facts"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FACTS_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {FACTS_TIMEOUT_S} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"error": lines[-1]}
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def _print_daemon(url: str, api_key: str | None) -> None:
    try:
        status = asyncio.run(Client(url, api_key).status())
    except HomespecError as error:
        print(f"daemon             not reached at {url}: {error}")
        return
    print(f"daemon             {status.phase} at {url}: {status.detail}; {status.engine.restarts} restarts")
    _print_model(status)


def _print_model(status: Status) -> None:
    if status.model is not None:
        model = status.model
        print(f"model              {model.id}: {model.description}, {model.n_ctx} tokens, KV {model.kv_type}")
    print(f"exactness          {status.exactness}: {status.exactness_reason}")
    for drafter in status.speculation.drafters if status.speculation else ():
        mark = "ready" if drafter.state is DraftState.READY else drafter.state.value
        print(f"drafter {drafter.name:10} {mark}: {drafter.reason}")
