"""What the child that measures has said before: a model that is loaded again need not be measured again.

What a header says and what a dry run takes are facts of the files, the library and the devices. What is free is not: it
is read each time.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import msgspec

from homespec.footprint import (
    Answer,
    CheckPair,
    Described,
    DescribeModel,
    Devices,
    ListDevices,
    MeasureSpeeds,
    PairChecked,
    Question,
    Sized,
    SizeDrafter,
    SizeTarget,
)
from homespec.split import parts

_MOST = 1000
"""Some hundred bytes each; the search for one model asks about ten questions."""


class Answers:
    """For as long as a daemon runs. Whoever asks for sizes has the devices listed first."""

    def __init__(self) -> None:
        self._kept: dict[str, Answer] = {}
        self._devices: tuple[tuple[str, int | None], ...] | None = None
        """Names and sizes of those that were there last."""

    @property
    def is_empty(self) -> bool:
        return not self._kept

    def find(self, key: str | None) -> Answer | None:
        """None: it has to be asked."""
        return None if key is None else self._kept.get(key)

    def keep(self, key: str | None, answer: Answer) -> None:
        """Where it stays true. A failure does not: another try may do better."""
        if isinstance(answer, Devices):
            self._see(answer)
        if key is None or not self._stays_true(answer):
            return
        self._kept[key] = answer
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def _see(self, answer: Devices) -> None:
        """Sizes were taken with the devices of that time."""
        there = tuple((device.name, device.total_bytes) for device in answer.devices)
        if self._devices not in (None, there):
            self._kept.clear()
        self._devices = there

    def _stays_true(self, answer: Answer) -> bool:
        match answer:
            case Described() | PairChecked():
                return True
            case Devices(may_change=may_change):
                return not may_change
            case Sized(footprint):
                # Over several devices llama.cpp spreads layers by what is free on each.
                return footprint.measured and self._devices is not None and len(self._devices) <= 1
            case _:
                return False


def key_of(question: Question) -> str | None:
    """Of a question about these files, as they are now, to this library. Blocks: it looks at the files. None when one
    of them cannot be found.
    """
    try:
        stamps = [_stamp(part) for path in _paths(question) for part in parts(Path(path))]
        library = find_spec("llama_cpp")
        if library is not None and library.origin is not None:
            stamps.append(_stamp(Path(library.origin).parent / "lib"))
    except OSError:
        return None
    return hashlib.sha256(msgspec.json.encode((question, stamps))).hexdigest()


def _paths(question: Question) -> tuple[str, ...]:
    match question:
        case ListDevices() | MeasureSpeeds():
            paths: tuple[str | None, ...] = ()
        case DescribeModel(path, target_path):
            paths = (path, target_path)
        case SizeTarget(settings) | SizeDrafter(settings):
            paths = (settings.model_path, settings.draft_path)
        case CheckPair(target_path, draft_path):
            paths = (target_path, draft_path)
    return tuple(path for path in paths if path is not None)


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file is written or replaced."""
    found = path.stat()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
