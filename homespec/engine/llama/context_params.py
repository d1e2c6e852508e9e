"""Sizes and types that a context is made with."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.engine.llama.taps import TapPlan

KV_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2}


@dataclass(frozen=True, slots=True)
class ContextParams:
    """Sizes of a context; names are llama.cpp's."""

    n_ctx: int
    """Tokens that may be used; llama.cpp allocates cells in steps of 256."""
    n_seq_max: int
    n_outputs_max: int
    """Most rows with logits in one call. Sizes the compute buffer; more than this would abort the process."""
    n_batch: int = 512
    n_threads: int = 1
    """For a call with a single row."""
    n_threads_batch: int | None = None
    """For all others; None: the same."""
    kv_type: str = "f16"
    flash_attention: str = "auto"
    n_rs_seq: int = 0
    """Snapshots that a recurrent memory keeps per sequence, each as large as the state itself; ignored where the
    architecture has none."""
    taps: TapPlan | None = None
    """Hidden states to give out beside the logits."""
    is_mtp: bool = False
    """Run the model's MTP block, not its trunk. The model must have been loaded with it: else llama.cpp aborts."""
    is_causal: bool = True
    """False: rows of one call see one another, whatever their positions."""
    gives_states: bool = False
    """Keep the state behind the last layer of every row: then every row of a call is an output."""
