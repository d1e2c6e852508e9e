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
from tests.kits.nvml import build_driver

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


@pytest.fixture
def plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A box with NVIDIA's cards and driver, and without its tool; the file that says what the driver does."""
    device = tmp_path / "pci" / "0000:0a:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    behaviour = tmp_path / "behaviour"
    behaviour.write_text("")
    monkeypatch.setattr("homespec.profiles.box._PCI_DEVICES", tmp_path / "pci")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build_driver(tmp_path)))
    monkeypatch.setenv("FAKE_NVML", str(behaviour))
    monkeypatch.setenv("PATH", str(tmp_path))
    return behaviour


def test_the_largest_card_counts(plugged_in: Path) -> None:
    assert detect() == Box("nvidia", 24 * GIB - 500 * MIB)
    assert pick(detect()) == named("nvidia-24")


@pytest.mark.parametrize("behaviour", ["init=18", "memory=4", "huge", "hang"])
def test_a_driver_that_does_not_tell_is_none(plugged_in: Path, behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homespec.nvidia.TIMEOUT_S", 2.0)
    plugged_in.write_text(behaviour)
    assert detect().device == "cpu"


def test_without_a_card_no_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homespec.profiles.box._PCI_DEVICES", tmp_path)
    monkeypatch.setattr("homespec.profiles.box._WSL_NODE", tmp_path / "dxg")
    monkeypatch.setattr("homespec.nvidia.ask", None)
    monkeypatch.setattr("sys.platform", "linux")
    assert detect().device == "cpu"


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
