"""What was said of files is said again while they are the same, and never what may have changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from homespec.footprint import Device, Devices, Failed, Footprint, ListDevices, Sized, SizeDrafter, SizeTarget
from homespec.headroom.answers import Answers, key_of
from homespec.headroom.planner import fit
from homespec.headroom.survey import Survey
from homespec.units import GIB
from tests.headroom.planning import MARKS, give, settings
from tests.kits.models import Models

NONE, GPU, OTHER = (), (Device("CUDA0", "card", 8 * GIB, GIB, False),), (Device("CUDA1", "card", GIB, GIB, False),)
SIZED = Sized(Footprint({}, n_ctx=256, kv_type="f16"))


def after(*said: Devices | Sized | Failed) -> object:
    """What is known when the last of them was the answer to the question."""
    answers = Answers()
    for number, answer in enumerate(said):
        answers.keep("the question" if number == len(said) - 1 else f"question {number}", answer)
    return answers.find("the question")


def test_a_size_is_kept_where_it_does_not_hang_on_what_is_free() -> None:
    computed = Sized(msgspec.structs.replace(SIZED.footprint, measured=False))
    assert after(Devices(NONE), SIZED) == SIZED
    assert after(Devices(GPU), SIZED) == SIZED
    assert after(Devices(GPU + OTHER), SIZED) is None
    assert after(SIZED) is None
    assert after(Devices(NONE), computed) is None
    assert after(Devices(NONE), Failed("ModelError", "no")) is None


def test_devices_are_read_again_where_some_may_come() -> None:
    assert after(Devices(NONE)) is None
    assert after(Devices(GPU)) is None
    assert after(Devices(NONE, may_change=False)) == Devices(NONE, may_change=False)


@pytest.mark.parametrize(("first", "then"), [(NONE, GPU), (GPU, NONE), (GPU, OTHER)])
def test_other_devices_make_other_sizes(first: tuple[Device, ...], then: tuple[Device, ...]) -> None:
    answers = Answers()
    answers.keep("devices", Devices(first))
    answers.keep("size", SIZED)
    less_free = tuple(msgspec.structs.replace(device, free_bytes=0) for device in first)
    answers.keep("devices", Devices(less_free))
    assert answers.find("size") == SIZED
    answers.keep("devices", Devices(then))
    assert answers.find("size") is None


def test_it_does_not_grow_without_end() -> None:
    answers = Answers()
    answers.keep("devices", Devices(NONE))
    for number in range(3000):
        answers.keep(str(number), SIZED)
    assert answers.find("0") is None
    assert answers.find("2999") == SIZED
    assert sum(answers.find(str(number)) is not None for number in range(3000)) == 1000


def test_another_file_or_another_setting_is_another_question(tmp_path: Path) -> None:
    target, draft = tmp_path / "target.gguf", tmp_path / "draft.gguf"
    target.write_bytes(b"one")
    draft.write_bytes(b"two")
    asked = settings(target, draft_path=str(draft))
    known = {key_of(SizeTarget(asked)), key_of(SizeDrafter(asked)), key_of(ListDevices())}
    assert len(known) == 3
    assert key_of(SizeTarget(asked)) in known
    assert key_of(SizeTarget(msgspec.structs.replace(asked, n_ctx=512))) not in known
    draft.write_bytes(b"longer")
    assert key_of(SizeDrafter(asked)) not in known
    replacement = tmp_path / "new.gguf"
    replacement.write_bytes(b"one")
    replacement.replace(target)
    assert key_of(SizeTarget(settings(target))) != key_of(SizeTarget(asked))
    target.unlink()
    assert key_of(SizeTarget(asked)) is None


def test_any_part_of_a_split_model_counts(tmp_path: Path) -> None:
    first, second = (tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(b"a")
    assert key_of(SizeTarget(settings(first))) is None
    second.write_bytes(b"b")
    before = key_of(SizeTarget(settings(first)))
    second.write_bytes(b"bb")
    assert key_of(SizeTarget(settings(first))) != before


@pytest.mark.real
async def test_a_second_fit_asks_nobody_and_reads_what_is_free_anew(models: Models, free: pytest.MonkeyPatch) -> None:
    asked, answers = settings(models.letters, n_ctx=2048), Answers()
    first = await fit(asked, MARKS, answers)
    starts = []
    honest = Survey._start

    async def start(survey: Survey) -> object:
        starts.append(survey)
        return await honest(survey)

    free.setattr(Survey, "_start", start)
    again = await fit(asked, MARKS, answers)
    has_devices = first.target is not None and set(first.target.devices) != {"CPU"}
    assert again.settings == first.settings
    assert bool(starts) == has_devices
    give(free, 8 * GIB)
    assert (await fit(asked, MARKS, answers)).events[0] != first.events[0]
