"""Limits of control groups, version 1 and 2: how much memory the group of this process may still take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT = 2**60
"""Version 1 writes `no limit` as the largest number of pages that it can count."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """One group with a limit."""

    path: Path
    limit_bytes: int
    available_bytes: int
    """Limit minus usage, with the file cache added back that can be dropped at no cost."""


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted hierarchy that accounts memory."""

    version: int
    path: Path
    shows: str
    """The group that is seen at its top."""


class ControlGroups:
    """The groups that this process is in. It may be moved at any time; mounts are looked up once."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._mounts = list(_mounts(root))

    def tightest(self) -> GroupMemory | None:
        """The group with the least left, of this process's own and all above it; None without any limit.

        A limit high up binds as much as one's own.
        """
        found = [
            memory
            for mount, group in self._places()
            for each in _upwards(group, mount.path)
            if (memory := _read(each, mount.version)) is not None
        ]
        return min(found, key=lambda memory: memory.available_bytes, default=None)

    def pressure_file(self) -> Path | None:
        """Pressure stall information of this process's own group; version 2 only."""
        for mount, group in self._places():
            path = group / "memory.pressure"
            if mount.version == 2 and group != mount.path and path.exists():
                return path
        return None

    def _places(self) -> Iterator[tuple[_Mount, Path]]:
        """Each hierarchy, and this process's place in it: /proc/self/cgroup names version 2 by no controller."""
        lines = (line.split(":", 2) for line in _lines(self._root / "proc/self/cgroup"))
        of_process = {names: path for _, names, path in lines}
        for mount in self._mounts:
            for names, path in of_process.items():
                is_here = names == "" if mount.version == 2 else "memory" in names.split(",")
                if is_here:
                    yield mount, _inside(mount, path)


def _mounts(root: Path) -> Iterator[_Mount]:
    """From /proc/self/mountinfo: fields 4 and 5 are root and mount point; type and options follow a dash (proc(5))."""
    for line in _lines(root / "proc/self/mountinfo"):
        front, _, back = line.partition(" - ")
        kind, _, options = back.partition(" ")
        version = 2 if kind == "cgroup2" else 1 if kind == "cgroup" and "memory" in options.split(",") else None
        if version is not None:
            fields = front.split()
            yield _Mount(version, root / fields[4].lstrip("/"), fields[3])


def _inside(mount: _Mount, path: str) -> Path:
    """Where the group `path` is below a mount."""
    try:
        return mount.path / Path(path).relative_to(mount.shows)
    except ValueError:
        return mount.path  # a namespace hides where it really is; its visible top binds it in any case


def _upwards(group: Path, top: Path) -> Iterator[Path]:
    yield group
    while group != top:
        group = group.parent
        yield group


def _read(group: Path, version: int) -> GroupMemory | None:
    if version == 2:
        limits = (_number(group / "memory.max"), _number(group / "memory.high"))
        usage, keys = _number(group / "memory.current"), ("inactive_file", "active_file", "file_mapped")
    else:
        limits = (_number(group / "memory.limit_in_bytes"), None)
        usage = _number(group / "memory.usage_in_bytes")
        keys = ("total_inactive_file", "total_active_file", "total_mapped_file")
    limit = min((each for each in limits if each is not None and each < _NO_LIMIT), default=None)
    if limit is None or usage is None:
        return None
    inactive, active, mapped = _stat(group / "memory.stat", keys)
    # Cache that somebody has mapped is in use, a mapped model above all; it may be on either list.
    reclaimable = min(inactive, max(inactive + active - mapped, 0))
    return GroupMemory(group, limit, max(limit - usage + reclaimable, 0))


def _lines(path: Path) -> list[str]:
    """Those that are not empty; none of a file that is not there. Names are kept whatever their encoding."""
    try:
        return [line for line in os.fsdecode(path.read_bytes()).split("\n") if line]
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """None for `max`, and for a file that is not there."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _stat(path: Path, keys: tuple[str, str, str]) -> tuple[int, ...]:
    """The values of `keys`; zero for what is not told."""
    found = {key: int(value) for key, _, value in (line.partition(" ") for line in _lines(path)) if key in keys}
    return tuple(found.get(key, 0) for key in keys)
