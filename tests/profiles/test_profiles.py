"""Profiles that ship: each loads, each has its reasons, and every box gets the one of its class."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.config import Settings, load
from homespec.errors import ConfigError
from homespec.profiles.box import Box, detect
from homespec.profiles.profile import Profile, named, pick, profiles
from homespec.profiles.show import as_list, as_page, run
from homespec.store.choice import parse
from homespec.units import GIB, MIB
from tests.kits.cgroups import memory_group

CLASSES = {
    *(f"cpu-{size}" for size in (8, 16, 32)),
    *(f"nvidia-{size}" for size in (8, 12, 16, 24)),
    *(f"apple-{size}" for size in (8, 16, 32)),
    "hybrid",
}
MARKS = {"reserve_mib", "low_mark_mib", "high_mark_mib"}
EVERYWHERE = {"ctx", "slots", "kv_type", *MARKS}
"""What every profile says something about."""
ABOUT_MACHINES = EVERYWHERE | {"cached_prefixes", "flash_attention", "gpu_layers", "threads", "mmap"}
"""What a profile may set: nothing about who may connect, and nothing that belongs to a person."""


@pytest.fixture(autouse=True)
def _no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_every_class_has_one() -> None:
    assert {profile.name for profile in profiles()} == CLASSES


@pytest.mark.parametrize("profile", profiles(), ids=lambda profile: profile.name)
def test_a_profile_loads_and_gives_its_reasons(profile: Profile) -> None:
    settings = load({"profile": profile.name})
    assert {key: getattr(settings, key) for key in profile.values()} == profile.values()
    assert EVERYWHERE <= profile.values().keys() <= ABOUT_MACHINES <= Settings.model_fields.keys()
    assert profile.targets
    suggestions = (*profile.targets, *profile.drafters)
    reasons = [choice.reason for choice in profile.settings] + [suggestion.reason for suggestion in suggestions]
    assert all(len(reason) > 5 for reason in reasons)
    for suggestion in suggestions:
        repository, quant = parse(suggestion.model)
        assert quant
        assert repository.endswith("-GGUF")


@pytest.mark.parametrize(
    "profile", [each for each in profiles() if each.device != "hybrid"], ids=lambda each: each.name
)
@pytest.mark.parametrize("share", [0.92, 1.0, 1.05])
def test_a_box_gets_the_profile_of_its_class(profile: Profile, share: float) -> None:
    """A box reports a little less than it is sold with."""
    assert pick(Box(profile.device, int(profile.memory_gib * GIB * share))) == profile


@given(st.sampled_from(["cpu", "nvidia", "apple"]), st.integers(0, 200 * GIB), st.integers(0, 200 * GIB))
def test_more_memory_never_means_a_smaller_profile(device: str, one: int, other: int) -> None:
    smaller, larger = (pick(Box(device, size)) for size in sorted((one, other)))
    assert smaller is not None
    assert larger is not None
    assert smaller.memory_gib <= larger.memory_gib


def test_what_is_not_known_gets_none() -> None:
    assert pick(Box("cpu", None)) is None
    assert pick(Box("abacus", GIB)) is None


def test_an_unknown_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'nvidia-24'"):
        named("nvidia24")
    with pytest.raises(ConfigError, match="there are"):
        named("zzz")


def nvidia_smi(folder: Path, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 24564; echo 8192", Box("nvidia", 24564 * MIB)),
        ("echo 'NVIDIA-SMI has failed' >&2; exit 9", None),
        ("echo '[N/A]'", None),
    ],
)
def test_detection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: Box | None) -> None:
    nvidia_smi(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("sys.platform", "linux")
    found = detect()
    assert found == expected if expected else found.device == "cpu"


def test_apple_silicon_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert detect().device == "apple"


def test_the_list_marks_the_profile_of_this_box() -> None:
    marked = re.findall(r"^\* (\S+)", as_list(Box("nvidia", 12 * GIB)), re.MULTILINE)
    assert marked == ["nvidia-12"]
    assert "no profile" in as_list(Box("abacus", None))


def test_a_page_has_every_value_and_reason() -> None:
    profile = named("nvidia-8")
    page = as_page(profile)
    for choice in profile.settings:
        assert f"{choice.key} = {choice.value}\n    {choice.reason}" in page
    assert run("show", "nvidia-8") == page
    with pytest.raises(ConfigError, match="'shwo'"):
        run("shwo", None)


def test_the_page_about_profiles_lists_them() -> None:
    page = (Path(__file__).parents[2] / "docs/profiles.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(profile.name, profile.title) for profile in profiles()]


def test_a_container_is_as_large_as_its_limit() -> None:
    with memory_group(3 * GIB) as group:
        done = subprocess.run(
            [sys.executable, "-c", "from homespec.profiles.box import detect; print(detect().memory_bytes)"],
            preexec_fn=lambda: group.join(os.getpid()),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert int(done.stdout) == 3 * GIB
