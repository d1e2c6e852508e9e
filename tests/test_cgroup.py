"""Control groups as trees of files, and a real one where the system lets us make it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from homespec.cgroup import ControlGroups, GroupMemory
from homespec.units import GIB, MIB
from tests.kits.cgroups import MemoryGroup, memory_group

V1_NO_LIMIT = "9223372036854771712"


class Tree:
    """A root folder with proc and sys/fs/cgroup as the kernel shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc/self").mkdir(parents=True)

    def mounts(self, *lines: str) -> None:
        (self.root / "proc/self/mountinfo").write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))

    def member_of(self, *lines: str) -> None:
        (self.root / "proc/self/cgroup").write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))

    def group(self, path: str, **files: object) -> Path:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (folder / name.replace("__", ".")).write_text(f"{value}\n")
        return folder


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def v2(tree: Tree, path: str) -> None:
    tree.mounts("30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate")
    tree.member_of(f"0::{path}")


def v1(tree: Tree, path: str, mounted: str = "/") -> None:
    tree.mounts(
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
        f"35 31 0:32 {mounted} /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory",
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    )
    tree.member_of("9:name=systemd:/", f"4:memory:{path}", "1:cpu:/", "0::/")


def stat(inactive: int = 0, active: int = 0, mapped: int = 0) -> str:
    return f"anon 5\ninactive_file {inactive}\nactive_file {active}\nfile_mapped {mapped}"


def stat_v1(inactive: int = 0, active: int = 0, mapped: int = 0) -> str:
    own = "inactive_file 1\nactive_file 2\nmapped_file 3"
    return f"{own}\ntotal_inactive_file {inactive}\ntotal_active_file {active}\ntotal_mapped_file {mapped}"


def test_a_limit_leaves_what_is_not_used_and_the_cache_that_nobody_needs(tree: Tree) -> None:
    v2(tree, "/user.slice/app.scope")
    folder = tree.group(
        "sys/fs/cgroup/user.slice/app.scope",
        memory__max=30 * GIB,
        memory__high="max",
        memory__current=25 * GIB,
        memory__stat=stat(inactive=20 * GIB),
    )
    assert ControlGroups(tree.root).tightest() == GroupMemory(folder, 30 * GIB, 25 * GIB)


def test_cache_that_is_mapped_is_in_use_whichever_list_it_is_on(tree: Tree) -> None:
    """A mapped target above all: adding it back would let the drafter evict it."""
    v2(tree, "/a")
    for inactive, active, mapped, reclaimable in (
        (10, 0, 10, 0),
        (3, 10, 10, 3),
        (10, 5, 0, 10),
        (0, 9, 0, 0),
        (4, 1, 9, 0),
    ):
        tree.group("sys/fs/cgroup/a", memory__max=100, memory__current=50, memory__stat=stat(inactive, active, mapped))
        memory = ControlGroups(tree.root).tightest()
        assert memory is not None
        assert memory.available_bytes == 50 + reclaimable


def test_no_limit_is_no_reading(tree: Tree) -> None:
    v2(tree, "/a")
    tree.group("sys/fs/cgroup/a", memory__max="max", memory__high="max", memory__current=GIB, memory__stat=stat())
    assert ControlGroups(tree.root).tightest() is None


def test_names_that_are_not_utf_8_and_files_that_are_empty(tree: Tree) -> None:
    """A stick whose name is Latin-1 is mounted somewhere, and this process is in a group that is called as oddly."""
    odd = os.fsdecode(b"/caf\xe9\x85")
    tree.mounts(
        f"90 23 8:1 / /media{odd} rw - vfat /dev/sdb1 rw",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate",
    )
    tree.member_of(f"0::{odd}")
    group = tree.group(f"sys/fs/cgroup{odd}", memory__max=4 * GIB, memory__current=3 * GIB, memory__stat=stat())
    assert ControlGroups(tree.root).tightest() == GroupMemory(group, 4 * GIB, GIB)
    tree.member_of()
    assert ControlGroups(tree.root).tightest() is None


def test_a_limit_higher_up_binds_too(tree: Tree) -> None:
    v2(tree, "/box/user/app")
    tree.group("sys/fs/cgroup/box/user/app", memory__max=8 * GIB, memory__current=GIB, memory__stat=stat())
    tree.group("sys/fs/cgroup/box/user", memory__max="max", memory__current=2 * GIB, memory__stat=stat())
    above = tree.group("sys/fs/cgroup/box", memory__max=4 * GIB, memory__current=3 * GIB, memory__stat=stat())
    assert ControlGroups(tree.root).tightest() == GroupMemory(above, 4 * GIB, GIB)


def test_the_throttling_limit_counts(tree: Tree) -> None:
    v2(tree, "/a")
    folder = tree.group(
        "sys/fs/cgroup/a", memory__max=8 * GIB, memory__high=GIB, memory__current=2 * GIB, memory__stat=stat()
    )
    assert ControlGroups(tree.root).tightest() == GroupMemory(folder, GIB, 0)


def test_version_1_counts_whole_subtrees(tree: Tree) -> None:
    v1(tree, "/docker/abc")
    folder = tree.group(
        "sys/fs/cgroup/memory/docker/abc",
        memory__limit_in_bytes=4 * GIB,
        memory__usage_in_bytes=3 * GIB,
        memory__stat=stat_v1(inactive=2 * GIB, mapped=GIB),
    )
    tree.group("sys/fs/cgroup/memory/docker", memory__limit_in_bytes=V1_NO_LIMIT, memory__usage_in_bytes=3 * GIB)
    tree.group("sys/fs/cgroup/memory", memory__limit_in_bytes=V1_NO_LIMIT, memory__usage_in_bytes=9 * GIB)
    assert ControlGroups(tree.root).tightest() == GroupMemory(folder, 4 * GIB, 2 * GIB)


def test_a_container_sees_its_own_group_at_the_top(tree: Tree) -> None:
    """Without a namespace the path is the host's, and the mount shows that group as its root."""
    v1(tree, "/docker/abc", mounted="/docker/abc")
    folder = tree.group("sys/fs/cgroup/memory", memory__limit_in_bytes=GIB, memory__usage_in_bytes=MIB)
    assert ControlGroups(tree.root).tightest() == GroupMemory(folder, GIB, GIB - MIB)
    v1(tree, "/../../elsewhere", mounted="/docker/abc")
    assert ControlGroups(tree.root).tightest() == GroupMemory(folder, GIB, GIB - MIB)


def test_a_system_without_control_groups(tmp_path: Path) -> None:
    assert ControlGroups(tmp_path).tightest() is None
    assert ControlGroups(tmp_path).pressure_file() is None


def test_pressure_is_that_of_the_own_group_where_it_is_told(tree: Tree) -> None:
    v2(tree, "/a")
    assert ControlGroups(tree.root).pressure_file() is None
    folder = tree.group("sys/fs/cgroup/a", memory__pressure="some avg10=0.00 total=1")
    assert ControlGroups(tree.root).pressure_file() == folder / "memory.pressure"
    v2(tree, "/")  # at the top it is the box's, which /proc/pressure has as well
    tree.group("sys/fs/cgroup", memory__pressure="some avg10=0.00 total=1")
    assert ControlGroups(tree.root).pressure_file() is None


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with memory_group(200 * MIB) as group:
        yield group


def test_a_real_group(group: MemoryGroup, tmp_path: Path) -> None:
    """What a process has written to a file is cache that it can get back; what it holds is not."""
    program = f"""
import json, os
from homespec.cgroup import ControlGroups
def read():
    memory = ControlGroups().tightest()
    return str(memory.path), memory.limit_bytes, memory.available_bytes
before = read()
with open({str(tmp_path / "cache")!r}, "wb") as file:
    file.write(os.urandom(40 * 2**20))
    file.flush()
    os.fsync(file.fileno())
cached = read()
held = bytearray(os.urandom(60 * 2**20))
print(json.dumps([before, cached, read()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=lambda: group.join(os.getpid()),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, cached, held = json.loads(done.stdout)
    assert before[0] == str(group.path)
    assert before[1] == 200 * MIB
    assert cached[2] > before[2] - 20 * MIB
    assert held[2] < cached[2] - 40 * MIB
