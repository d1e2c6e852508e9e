"""The configured files, and the planner's verdict on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from homespec.config import Settings, load
from homespec.doctor.check import Verdict
from homespec.doctor.configuration import examine_configuration
from homespec.doctor.models import check_draft, check_fit, check_others, find_target, network_drive
from homespec.headroom import planner
from homespec.headroom.readings import HostMemory
from homespec.units import MIB
from tests.kits.models import Models


@dataclass(frozen=True)
class Mount:
    mountpoint: str
    fstype: str


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/srv/nas/x.gguf", "nfs4"), ("/srv/nas/local/x.gguf", None), ("/srv/x.gguf", None), ("/x.gguf", None)],
)
def test_a_network_drive_is_told_by_the_nearest_mount(path: str, kind: str | None) -> None:
    mounts = [Mount("/", "ext4"), Mount("/srv/nas", "nfs4"), Mount("/srv/nas/local", "xfs")]
    assert network_drive(PurePosixPath(path), mounts) == kind
    assert network_drive(PurePosixPath(path), []) is None


def test_no_model_a_broken_one_and_a_sound_one(tmp_path: Path, models: Models) -> None:
    path, check = find_target(Settings.model_construct())
    assert (path, check.verdict) == (None, Verdict.WARN)
    page = tmp_path / "page.gguf"
    page.write_text("<!doctype html>")
    path, check = find_target(Settings.model_construct(model=str(page)))
    assert (path, check.verdict) == (None, Verdict.FAIL)
    assert check.text == f"{page} is not a GGUF file: it is a web page"
    assert check.remedy == "download the file itself, not the page about it"
    path, check = find_target(Settings.model_construct(model=str(models.letters)))
    assert (path, check.verdict) == (models.letters, Verdict.OK)


def test_a_draft_is_looked_at_when_one_is_named(tmp_path: Path, models: Models) -> None:
    assert check_draft(Settings.model_construct()) is None
    gone = check_draft(Settings.model_construct(draft=str(tmp_path / "gone.gguf")))
    assert gone is not None
    assert gone.verdict is Verdict.FAIL
    assert gone.remedy == "check the path, or take a name that 'homespec models' lists"
    there = check_draft(Settings.model_construct(draft=str(models.letters)))
    assert there is not None
    assert there.verdict is Verdict.OK


def test_every_model_of_the_table_is_looked_at_and_the_first_is_the_target(tmp_path: Path, models: Models) -> None:
    tables = {"one": str(models.letters), "gone": str(tmp_path / "gone.gguf"), "two": {"path": str(models.random)}}
    settings = load({"models": tables})
    assert find_target(settings.of_first())[0] == models.letters
    gone, two = check_others(settings)
    assert (gone.verdict, two.verdict) == (Verdict.WARN, Verdict.OK)
    assert f"gone: {tmp_path}/gone.gguf does not exist" in gone.text


@pytest.mark.real
@pytest.mark.parametrize(("free_mib", "verdict"), [(4096, Verdict.OK), (101, Verdict.FAIL)])
async def test_the_planner_decides_whether_it_fits(
    models: Models, monkeypatch: pytest.MonkeyPatch, free_mib: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(planner, "host_memory", lambda: HostMemory(8192 * MIB, free_mib * MIB))
    settings = Settings.model_construct(model=str(models.random), draft=str(models.other_random), reserve_mib=100)
    checks = list(await check_fit(settings, models.random))
    assert checks[0].verdict is verdict
    assert [check.name for check in checks] == (["fits", "draft fits"] if verdict is Verdict.OK else ["fits"])


def test_a_configuration_with_a_fault_leaves_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("slotz = 4")
    settings, check = examine_configuration(path)
    assert settings.slots == 4
    assert (check.verdict, check.remedy) == (Verdict.FAIL, "did you mean 'slots'?")


def test_the_layers_are_named_without_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text("profile = 'cpu-8'")
    monkeypatch.setenv("HOMESPEC_API_KEY", "sk-secret")
    _, check = examine_configuration(path)
    assert check.verdict is Verdict.OK
    assert check.text == f"file {path}; profile cpu-8; environment HOMESPEC_API_KEY"
