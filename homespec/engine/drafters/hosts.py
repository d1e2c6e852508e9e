"""Target architectures that heads can read, in the pinned llama.cpp.

A tap on an architecture that lacks it does not fail: the next decode aborts the process, or the rows read as zeros. So
only what is listed here is ever switched on.
"""

from __future__ import annotations

from dataclasses import dataclass

from homespec.engine.llama.model import Model

LAYER_INPUTS = frozenset(
    {
        "bailingmoe3",
        "deepseek4",
        "gemma4",
        "hunyuan_vl",
        "lfm2",
        "llama",
        "mimo2",
        "minimax-01",
        "minimax-m2",
        "muse-glimmer",
        "nanbeige",
        "nemotron_h",
        "gpt-oss",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen3next",
        "qwen4exp",
    }
)
"""Give out the input of any layer."""

LAST_OUTPUT = frozenset({"deepseek4", "mimo2", "nemotron_h"})
"""Also give out the output of the last layer, as the input of the one that would follow."""

MTP_BLOCKS = frozenset(
    {
        "bailingmoe3",
        "cohere2moe",
        "deepseek2",
        "deepseek32",
        "glm-dsa",
        "glm4moe",
        "hy_v3",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
    }
)
"""Give out the state behind the last layer, and can run the block that predicts further tokens from it."""

CROPPED_MTP_BLOCKS = frozenset({"deepseek4", "mimo2", "qwen3next", "step35"})
"""Also have such a block, but its graph drops the states of rows without logits, and reading them aborts."""


@dataclass(frozen=True, slots=True)
class Host:
    """What a head needs to know of its target."""

    architecture: str
    n_embd: int
    n_layer: int
    """Without the blocks that predict further tokens."""
    n_vocab: int


def host_of(model: Model) -> Host:
    return Host(model.architecture, model.n_embd, model.n_layer, model.vocab.n_vocab)
