"""Cards as the kernel, NVML and llama.cpp tell of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from homespec.doctor.check import Verdict
from homespec.doctor.gpu import Gpus, check_gpus, read_gpus

NVIDIA = Gpus(vendors=frozenset({"NVIDIA"}), driver="550.1")


@pytest.mark.parametrize(
    ("gpus", "devices", "asked", "expected"),
    [
        (Gpus(), (), None, {"GPU": Verdict.OK}),
        (Gpus(), (), 20, {"GPU": Verdict.FAIL}),
        (Gpus(), None, 20, {}),
        (NVIDIA, ("CUDA0",), 20, {"GPU driver": Verdict.OK, "GPU": Verdict.OK}),
        (NVIDIA, (), None, {"GPU driver": Verdict.OK, "GPU": Verdict.WARN}),
        (Gpus(vendors=frozenset({"NVIDIA"})), (), None, {"GPU driver": Verdict.WARN, "GPU": Verdict.WARN}),
        (Gpus(vendors=frozenset({"AMD"})), ("Vulkan0",), None, {"GPU": Verdict.OK}),
        (
            Gpus(vendors=frozenset({"AMD"}), closed=("/dev/kfd",)),
            (),
            None,
            {"GPU access": Verdict.WARN, "GPU": Verdict.WARN},
        ),
        (
            Gpus(vendors=frozenset({"NVIDIA"}), driver="550.1", nvml_fault="version mismatch"),
            (),
            None,
            {"GPU driver": Verdict.WARN, "GPU": Verdict.WARN},
        ),
    ],
)
def test_verdicts(gpus: Gpus, devices: tuple[str, ...] | None, asked: int | None, expected: dict[str, Verdict]) -> None:
    found = list(check_gpus(gpus, devices, asked))
    assert {check.name: check.verdict for check in found} == expected
    assert all((check.remedy is None) is (check.verdict is Verdict.OK) for check in found)


def card(root: Path, name: str, kind: str, vendor: str) -> None:
    folder = root / "sys/bus/pci/devices" / name
    folder.mkdir(parents=True)
    (folder / "class").write_text(f"{kind}\n")
    (folder / "vendor").write_text(f"{vendor}\n")


def answering(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r})")


def test_a_box_without_cards(tmp_path: Path) -> None:
    card(tmp_path, "0000:00:01.0", "0x020000", "0x10de")
    card(tmp_path, "0000:00:02.0", "0x030000", "0x8086")
    assert read_gpus(tmp_path, ("/nothing/must/be/asked",)) == Gpus()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("{}", None),
        ('{"error": "NVML cannot be started: Driver/library version mismatch; reboot"}', "version mismatch; reboot"),
        ("", "exit code 0"),
    ],
)
def test_a_driver_is_read_and_asked(tmp_path: Path, answer: str, fault: str | None) -> None:
    card(tmp_path, "0000:01:00.0", "0x030200", "0x10de")
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54\nGCC version:\n")
    gpus = read_gpus(tmp_path, answering(answer))
    assert gpus.vendors == {"NVIDIA"}
    assert gpus.driver == "NVIDIA UNIX x86_64 Kernel Module  550.54"
    assert (gpus.nvml_fault is None) if fault is None else str(gpus.nvml_fault).endswith(fault)


def test_windows_keeps_the_driver_elsewhere(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/wsl/lib/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    assert read_gpus(tmp_path, answering("{}")).driver == "of Windows"
