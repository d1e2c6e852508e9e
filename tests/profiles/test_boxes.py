"""Every profile on a box of its class that exists as numbers only: its models fit, drafter and marks included."""

from __future__ import annotations

import re

import pytest

from homespec.footprint import HOST
from homespec.headroom.admission import Candidate, DraftVerdict, admit
from homespec.headroom.budget import Budget, DeviceBudget
from homespec.headroom.choice import Asked, TargetPlan
from homespec.headroom.gate import plan_target
from homespec.headroom.marks import WantedMarks
from homespec.profiles.profile import Profile, profiles
from homespec.units import GIB, MIB
from tests.kits.boxes import PaperModel, run

GB = 1_000_000_000
COMPUTE_BYTES = 300 * MIB
"""Scores of a chunk of 256 tokens over a vocabulary of 151 936, and what the layers need: more than a paper model."""
PUBLISHED = {
    "Qwen3-0.6B-GGUF:Q8_0": (0.64, 28, 2048),
    "Qwen3-1.7B-GGUF:Q4_K_M": (1.11, 28, 2048),
    "Qwen3-4B-GGUF:Q4_K_M": (2.50, 36, 2048),
    "Qwen3-8B-GGUF:Q4_K_M": (5.03, 36, 2048),
    "Qwen3-8B-GGUF:Q6_K": (6.73, 36, 2048),
    "Qwen3-14B-GGUF:Q4_K_M": (9.00, 40, 2048),
    "Qwen3-32B-GGUF:Q4_K_M": (19.76, 64, 2048),
    "Qwen3-30B-A3B-GGUF:Q4_K_M": (18.56, 48, 1024),
}
"""As the hub lists them: GB of the file, layers, and elements of keys and values per token and layer."""
SYSTEM_GIB = {8: 2.0, 16: 3.0, 32: 4.0}
"""What the system and a browser hold, by the size of the box."""
DESKTOP_GIB = 0.5
"""What a desktop holds of the card it draws on."""
METAL_SHARE = 2 / 3
"""Of unified memory, what Metal gives out."""


def paper(suggestion: str) -> PaperModel:
    size_gb, n_layer, kv_width = PUBLISHED[suggestion.partition("/")[2]]
    return PaperModel(int(size_gb * GB) + COMPUTE_BYTES, n_layer, kv_width)


def device_of(profile: Profile) -> str | None:
    return {"cpu": None, "apple": "MTL0"}.get(profile.device, "CUDA0")


def box(profile: Profile) -> Budget:
    """A box of the class with the system and a desktop running."""
    marks = WantedMarks(reserve_bytes=profile.values()["reserve_mib"] * MIB)
    name = device_of(profile)
    host_gib = 16 if profile.device == "nvidia" else profile.memory_gib

    def pool(name: str, total_gib: float, used_gib: float, *, is_unified: bool = False) -> DeviceBudget:
        total = int(total_gib * GIB)
        return DeviceBudget(name, total, total - int(used_gib * GIB), marks.reserve(total), is_unified=is_unified)

    host = pool(HOST, host_gib * 0.96, SYSTEM_GIB[host_gib])
    if name is None:
        return Budget(host)
    if profile.device == "apple":
        return Budget(host, (pool(name, profile.memory_gib * METAL_SHARE, 0.0, is_unified=True),))
    card_gib = 8 if profile.device == "hybrid" else profile.memory_gib
    return Budget(host, (pool(name, card_gib, DESKTOP_GIB),))


def asked(profile: Profile, model: PaperModel) -> Asked:
    values = profile.values()
    return Asked(
        n_ctx=values["ctx"],
        kv_type=None if values["kv_type"] == "auto" else values["kv_type"],
        n_gpu_layers=None,
        slots=values["slots"],
        n_layer=model.n_layer,
        has_device=profile.device != "cpu",
    )


def plan(profile: Profile, suggestion: str) -> TargetPlan:
    model = paper(suggestion)
    result = run(
        plan_target(asked(profile, model), box(profile)), lambda choice: model.footprint(choice, device_of(profile))
    )
    assert isinstance(result, TargetPlan), (profile.name, suggestion)
    return result


def draft(profile: Profile, target: TargetPlan, suggestion: str) -> DraftVerdict:
    model = paper(suggestion)
    search = admit([Candidate(suggestion, None)], target, box(profile), max_draft_tokens=16, can_quantize_kv=True)
    verdicts = run(search, lambda way: model.drafting(way, target.choice, device_of(profile))).verdicts
    return verdicts[0]


@pytest.mark.parametrize("profile", profiles(), ids=lambda profile: profile.name)
def test_suggested_models_fit_a_box_of_the_class(profile: Profile) -> None:
    """With the context and the slots of the profile, and nothing given up but layers on the hybrid."""
    for suggestion in profile.targets:
        target = plan(profile, suggestion.model)
        assert target.footprint.n_ctx == profile.values()["ctx"]
        assert bool(target.changes) is (profile.device == "hybrid"), target.changes
        for drafter in profile.drafters:
            verdict = draft(profile, target, drafter.model)
            assert verdict.is_admitted, verdict.reason
            if profile.device != "cpu":
                assert verdict.choice is not None
                assert verdict.choice.n_gpu_layers != 0, "a drafter in main memory is too slow for a card"


@pytest.mark.parametrize("profile", profiles(), ids=lambda profile: profile.name)
def test_marks_leave_room_between_them(profile: Profile) -> None:
    values = profile.values()
    assert 0 < values["low_mark_mib"] < values["reserve_mib"] < values["high_mark_mib"]
    for pool in box(profile).pools():
        assert pool.total_bytes is not None
        assert values["high_mark_mib"] * MIB < pool.total_bytes / 4


@pytest.mark.parametrize("profile", profiles(), ids=lambda profile: profile.name)
def test_numbers_in_the_reasons_are_those_of_the_models(profile: Profile) -> None:
    """Bytes of a token are of f16, two each."""
    for suggestion in (*profile.targets, *profile.drafters):
        size_gb, n_layer, kv_width = PUBLISHED[suggestion.model.partition("/")[2]]
        [stated] = re.findall(r"^([\d.]+) GiB", suggestion.reason)
        assert float(stated) == pytest.approx(size_gb * GB / GIB, abs=0.06)
    _, n_layer, kv_width = PUBLISHED[profile.targets[0].model.partition("/")[2]]
    token_kib = n_layer * kv_width * 2 / 1024
    reason = profile.reason("ctx") or ""
    for stated in re.findall(r"\((\d+) KiB a token\)", reason):
        assert int(stated) == token_kib
    [(amount, unit)] = re.findall(r"([\d.]+) (GiB|MiB) of (?:f16 )?KV cache", reason)
    share = 34 / 64 if profile.values()["kv_type"] == "q8_0" else 1.0
    expected = token_kib * profile.values()["ctx"] * share * 1024 / (GIB if unit == "GiB" else MIB)
    assert float(amount) == pytest.approx(expected, rel=0.05)
