"""Each way in which a pair does not fit has its own reason, with ids and texts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from homespec.engine.drafters.pair import MAX_SIZE_DIFFERENCE, mismatch


@dataclass(frozen=True)
class FakeVocab:
    texts: tuple[bytes, ...] = tuple(b"token%d" % index for index in range(300))
    kinds: tuple[int, ...] = (1,) * 300
    type: int = 2
    adds_bos: bool = True
    adds_eos: bool = False
    bos: int | None = 1
    eos: int | None = 2

    @property
    def n_vocab(self) -> int:
        return len(self.texts)

    def text(self, token_id: int) -> bytes:
        return self.texts[token_id]

    def attributes(self, token_id: int) -> int:
        return self.kinds[token_id]

    def with_text(self, token_id: int, text: bytes) -> FakeVocab:
        return replace(self, texts=(*self.texts[:token_id], text, *self.texts[token_id + 1 :]))

    def padded(self, count: int) -> FakeVocab:
        return replace(self, texts=self.texts + (b"[PAD]",) * count, kinds=self.kinds + (1,) * count)


TARGET = FakeVocab()


@pytest.mark.parametrize(
    "draft", [TARGET, TARGET.padded(MAX_SIZE_DIFFERENCE), replace(TARGET, eos=7), TARGET.padded(1)]
)
def test_pairs_that_fit(draft: FakeVocab) -> None:
    assert mismatch(TARGET, draft) is None
    assert mismatch(draft, TARGET) is None


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (replace(TARGET, type=1), "vocabulary types differ: target 2, drafter 1"),
        (replace(TARGET, adds_bos=False), "BOS policy differs: the target adds it, the drafter does not add it"),
        (replace(TARGET, bos=5), "BOS token differs: target id 1, drafter id 5"),
        (replace(TARGET, adds_eos=True), "EOS policy differs: the target does not add it, the drafter adds it"),
        (TARGET.padded(200), "vocabulary sizes differ by 200: target 300, drafter 500"),
        (TARGET.with_text(250, b"other"), "token 250 differs: target 'token250', drafter 'other'"),
        (TARGET.with_text(3, b"low"), "token 3 differs: target 'token3', drafter 'low'"),
        (TARGET.with_text(9, b"\xff"), "token 9 differs"),
        (
            replace(TARGET, kinds=(1,) * 42 + (3,) + (1,) * 257),
            "token 42 'token42' differs in type: target 1, drafter 3",
        ),
    ],
)
def test_pairs_that_do_not_fit(draft: FakeVocab, reason: str) -> None:
    assert reason in str(mismatch(TARGET, draft))
