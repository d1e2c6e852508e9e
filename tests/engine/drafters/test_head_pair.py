"""Each way in which a head does not fit its target is refused with the numbers: llama.cpp would abort, or be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homespec.engine.drafters.hosts import LAST_OUTPUT, LAYER_INPUTS, Host
from homespec.engine.drafters.kind import DFLASH, DSPARK, EAGLE3, MTP, Head, KvShape
from homespec.engine.drafters.pair import head_mismatch, head_mismatches

HOST = Host("llama", n_embd=576, n_layer=30, n_vocab=49152)
EAGLE3_HEAD = Head(
    EAGLE3, "eagle3", 384, 49152, target_layers=(2, 15, 29), target_hidden_size=576, mapped_ids=(0, 49151)
)
DFLASH_HEAD = Head(DFLASH, "dflash", 576, 49152, target_layers=(2, 9, 16, 23, 29), block_size=16)
DSPARK_HEAD = replace(DFLASH_HEAD, kind=DSPARK)
MTP_HOST = Host("qwen35", n_embd=1024, n_layer=24, n_vocab=151936)
MTP_HEAD = Head(MTP, "qwen35", 1024, 151936, num_mtp_layers=1)
GEMMA = Host("gemma4", n_embd=2560, n_layer=42, n_vocab=262144)
SLIDING, FULL = KvShape(True, 8, 256, 256), KvShape(False, 4, 512, 512)
ASSISTANT = Head(
    MTP,
    "gemma4-assistant",
    256,
    262144,
    n_embd_out=2560,
    num_mtp_layers=4,
    reads_kv=frozenset({SLIDING, FULL}),
    target_kv=frozenset({SLIDING, FULL}),
)


@pytest.mark.parametrize(
    ("host", "head"),
    [
        (HOST, EAGLE3_HEAD),
        (HOST, replace(EAGLE3_HEAD, mapped_ids=None, n_vocab=None)),
        (HOST, DFLASH_HEAD),
        (HOST, DSPARK_HEAD),
        (HOST, replace(DFLASH_HEAD, has_selector=True, selector_top_k=8)),
        (MTP_HOST, MTP_HEAD),
        (GEMMA, ASSISTANT),
        (GEMMA, replace(ASSISTANT, reads_kv=frozenset({SLIDING}))),
        (replace(HOST, architecture="mimo2"), replace(EAGLE3_HEAD, target_layers=(2, 15, 30))),
    ],
)
def test_pairs_that_fit(host: Host, head: Head) -> None:
    assert head_mismatch(host, head) is None


@pytest.mark.parametrize(
    ("host", "head", "reason"),
    [
        (HOST, replace(EAGLE3_HEAD, target_layers=(2, 15)), "2 target layers, where eagle3 needs 3"),
        (HOST, replace(DFLASH_HEAD, target_layers=()), "0 target layers, where dflash needs at least 1"),
        (replace(HOST, architecture="qwen2"), EAGLE3_HEAD, "layer inputs of architecture 'qwen2'"),
        (replace(HOST, architecture="gemma3"), DSPARK_HEAD, "layer inputs of architecture 'gemma3'"),
        (HOST, replace(EAGLE3_HEAD, target_layers=(2, 15, 31)), r"[2, 15, 31] are not within the target's 0 to 30"),
        (HOST, replace(EAGLE3_HEAD, target_layers=(-1, 15, 29)), "[-1, 15, 29] are not within"),
        (HOST, replace(EAGLE3_HEAD, target_layers=(2, 15, 30)), "layer 30 is the last one's output"),
        (
            HOST,
            replace(EAGLE3_HEAD, target_hidden_size=1024),
            "target_hidden_size 1024 of the head is not the target's hi",
        ),
        (HOST, replace(EAGLE3_HEAD, target_hidden_size=None), "target_hidden_size None"),
        (
            HOST,
            replace(DFLASH_HEAD, n_embd=1024),
            "embedding width 1024 of the head is not the target's hidden width 576",
        ),
        (HOST, replace(EAGLE3_HEAD, n_vocab=32000), "vocabulary sizes differ: target 49152, head 32000"),
        (HOST, replace(EAGLE3_HEAD, mapped_ids=(0, 49152)), "d2t maps to ids 0 to 49152; the target has 49152 tokens"),
        (HOST, replace(EAGLE3_HEAD, mapped_ids=(-5, 9)), "d2t maps to ids -5 to 9"),
        (HOST, replace(DFLASH_HEAD, block_size=None), "block_size None leaves nothing to draft"),
        (HOST, replace(DSPARK_HEAD, block_size=1), "block_size 1 leaves nothing to draft"),
        (HOST, replace(DFLASH_HEAD, has_selector=True), "selector_top_k None leaves nothing to choose from"),
        (HOST, replace(MTP_HEAD, architecture="llama"), "no state for MTP on architecture 'llama'"),
        (replace(MTP_HOST, architecture="qwen3next"), MTP_HEAD, "MTP graph of 'qwen3next' drops the states"),
        (MTP_HOST, replace(MTP_HEAD, architecture="glm4moe"), "architectures differ: target 'qwen35', head 'glm4moe'"),
        (MTP_HOST, replace(MTP_HEAD, num_mtp_layers=3), "3 MTP blocks; llama.cpp's graph of 'qwen35' runs one"),
        (MTP_HOST, replace(MTP_HEAD, n_embd=2048), "embedding width 2048"),
        (MTP_HOST, ASSISTANT, "gemma4-assistant reads the KV cache of gemma4, the target is 'qwen35'"),
        (GEMMA, replace(ASSISTANT, n_embd_out=1536), "embedding_length_out 1536 of the head"),
        (GEMMA, replace(ASSISTANT, n_vocab=256000), "vocabulary sizes differ"),
        (GEMMA, replace(ASSISTANT, target_kv=frozenset()), "the target's last two layers keep none"),
        (
            GEMMA,
            replace(ASSISTANT, target_kv=frozenset({SLIDING, KvShape(False, 2, 512, 512)})),
            "it reads full 4 x 512/512 of the target's KV cache; the target's last two layers keep full 2 x 512/512, "
            "sliding 8 x 256/256",
        ),
        (GEMMA, replace(ASSISTANT, reads_kv=frozenset()), "it reads no layer of a known kind"),
    ],
)
def test_pairs_that_do_not_fit(host: Host, head: Head, reason: str) -> None:
    assert reason in str(head_mismatch(host, head))


def test_every_failed_check_is_named() -> None:
    head = replace(
        EAGLE3_HEAD, target_layers=(2, 15, 31), target_hidden_size=1024, n_vocab=32000, mapped_ids=(0, 50_000)
    )
    assert list(head_mismatches(replace(HOST, architecture="qwen2"), head)) == [
        "llama.cpp does not give out the layer inputs of architecture 'qwen2'",
        "target layers [2, 15, 31] are not within the target's 0 to 30",
        "target_hidden_size 1024 of the head is not the target's hidden width 576",
        "vocabulary sizes differ: target 49152, head 32000",
        "d2t maps to ids 0 to 50000; the target has 49152 tokens",
    ]
    block = replace(DSPARK_HEAD, target_layers=(), block_size=None, has_selector=True)
    assert len(list(head_mismatches(HOST, block))) == 3
    wrong = replace(MTP_HEAD, architecture="glm4moe", num_mtp_layers=2, n_embd=1)
    assert len(list(head_mismatches(replace(MTP_HOST, architecture="llama"), wrong))) == 4


def test_only_architectures_with_layer_inputs_give_out_the_last_output() -> None:
    assert LAST_OUTPUT < LAYER_INPUTS
