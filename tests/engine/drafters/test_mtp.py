"""The MTP block of a hybrid target: attention only, so it rolls back where the target itself may not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.drafters.mtp import open_mtp
from homespec.engine.drafters.pairs import PairDrafter
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import TapPlan
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal
from tests.kits.engines import ask, running
from tests.kits.gguf_kit import follow
from tests.kits.heads_kit import hybrid_mtp_markov
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.fixture
def target(models: Models) -> Iterator[Context]:
    model = Model(models.write("hybrid-mtp", hybrid_mtp_markov(models.chain)), load_mtp=True)
    params = ContextParams(n_ctx=256, n_seq_max=3, n_outputs_max=16, n_batch=64, flash_attention="on", taps=TapPlan())
    context = Context(model, params)
    yield context
    context.close()
    model.close()


def decode(context: Context, tokens: list[int], position: int, slot_id: int) -> None:
    batch = Batch(64)
    batch.add(tokens, position, slot_id, len(tokens) if len(tokens) <= 16 else 1)
    context.decode(batch)
    assert context.taps is not None
    context.taps.publish(slot_id, position, 0, len(tokens))


def greedy(logits: Logits, _tokens: Sequence[int]) -> Proposal:
    return Proposal(int(logits.argmax()))


def test_it_drafts_and_takes_its_own_rows_back(models: Models, target: Context) -> None:
    drafter = open_mtp(target.model, target, rows_per_slot=5, num_running=2, chunk=32)
    tokens = {0: [5, 6, 7], 1: [9] * 20}
    for slot_id, known in tokens.items():
        decode(target, known, 0, slot_id)
        drafter.prefill(slot_id, known)
        known += follow(models.chain, known[-1], 1)
    for _ in range(4):
        drafts = drafter.propose([DraftRequest(slot_id, known, 3, greedy) for slot_id, known in tokens.items()])
        for (slot_id, known), draft in zip(tokens.items(), drafts, strict=True):
            assert draft.token_ids == follow(models.chain, known[-1], 3)
            assert kv_length(drafter, slot_id) == len(known)
            decode(target, [known[-1], *draft.token_ids], len(known) - 1, slot_id)
            known += [*draft.token_ids, *follow(models.chain, draft.token_ids[-1], 1)]
    drafter.begin(2, 0, 5)
    assert kv_length(drafter, 2) == 5
    drafter.shutdown()


def kv_length(drafter: PairDrafter, slot_id: int) -> int:
    return drafter._head.context.kv_length(slot_id)


def test_the_engine_loads_it_and_answers(models: Models) -> None:
    path = models.write("hybrid-mtp", hybrid_mtp_markov(models.chain))
    with running(path, draft=path, threads=1) as driver:
        assert driver.drafter_status("mtp").state == "ready"
        [answer] = driver.run(ask([5, 6], mode="mtp", max_tokens=20))
        assert answer.token_ids == follow(models.chain, 6, 20)
