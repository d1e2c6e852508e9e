"""A drafter for a target: one of those that are here, else a repository of the target's family."""

from __future__ import annotations

from collections.abc import Iterable

from homespec.store.catalogue import Entry, drafters_for

FAMILIES: dict[tuple[str, int], str] = {
    ("qwen2", 151936): "Qwen/Qwen2.5-0.5B-Instruct-GGUF:q8_0",
    ("qwen3", 151936): "unsloth/Qwen3-0.6B-GGUF:Q8_0",
    ("qwen3moe", 151936): "unsloth/Qwen3-0.6B-GGUF:Q8_0",
    ("llama", 128256): "unsloth/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
    ("gemma3", 262144): "unsloth/gemma-3-270m-it-GGUF:Q8_0",
}
"""Architecture and vocabulary size of the target: the smallest model of the family that is published as GGUF. Each name
was found with this file in public documentation; pulling checks what arrives."""
_LARGE_ENOUGH = 4
"""A drafter that is not at least this many times smaller than its target seldom pays."""


def suggest(target: Entry, known: Iterable[Entry]) -> str:
    """One line on what could draft for the target."""
    local = [each for each in drafters_for(target, known) if each.size_bytes * _LARGE_ENOUGH <= target.size_bytes]
    if local:
        return f"drafter: {local[0].name} has the same vocabulary; serve with --draft '{local[0].name}'"
    published = FAMILIES.get((target.architecture or "", target.n_vocab or 0))
    if published and published.partition(":")[0].partition("/")[2].removesuffix("-GGUF") not in str(target.path):
        return f"drafter: none here; one of the same family: homespec pull {published}"
    return "drafter: none known here; the free drafters need none"
