"""What is known about the best D before anything has been measured: priors, and row counts worth measuring.

Raise D until verification turns compute-bound; where attention dominates, prefer whole tiles. The rest of the rules
(what drafting costs, and that the highest acceptance length is not the highest speed) is what `choose` computes.
"""

from __future__ import annotations

TILE_ROWS = 128
"""Query rows of one attention tile on current GPUs; the query heads of one KV head share a tile."""
_CPU_ROW_COST = 0.55
_TILE_COST = 0.12


def tile_draft_tokens(query_heads_per_kv_head: int, ceiling: int) -> list[int]:
    """Every D up to `ceiling` for which G·(1 + D) is a multiple of 128, with G query heads per KV head."""
    return [
        num_tokens
        for num_tokens in range(1, ceiling + 1)
        if query_heads_per_kv_head * (1 + num_tokens) % TILE_ROWS == 0
    ]


def prior_verify_cost(rows: int, *, on_cpu: bool) -> float:
    """T(rows)/T(1) where nothing has been measured yet: cautious, so that only good drafts are bet on.

    On a CPU verification is compute-bound almost from the second row on; on a GPU it is nearly flat within a tile.
    """
    return 1.0 + (_CPU_ROW_COST if on_cpu else _TILE_COST) * (rows - 1)
