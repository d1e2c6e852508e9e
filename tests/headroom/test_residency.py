"""mincore on real files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from homespec.headroom.residency import WINDOW_BYTES, WINDOWS, MappedFile, MappedModel, can_tell
from homespec.units import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mincore tells the truth on Linux only")


def written(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    return path


def drop(path: Path, offset: int, length: int) -> None:
    """Take pages out of the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), offset, length, os.POSIX_FADV_DONTNEED)


def on_disk(folder: Path) -> None:
    """A file system in memory never lets go of a page."""
    probe = written(folder / "probe", MIB)
    drop(probe, 0, 0)
    if MappedFile(probe).resident_share() != 0:
        pytest.skip(f"{folder} is kept in memory")


def test_the_share_follows_what_is_dropped(tmp_path: Path) -> None:
    on_disk(tmp_path)
    path = written(tmp_path / "file", 8 * MIB + 100)
    file = MappedFile(path)
    assert file.resident_share() == 1.0
    drop(path, 0, 4 * MIB)
    share = file.resident_share()
    assert share is not None
    assert 0.4 < share < 0.6
    path.read_bytes()
    assert file.resident_share() == 1.0


def test_looking_does_not_read(tmp_path: Path) -> None:
    on_disk(tmp_path)
    path = written(tmp_path / "file", 4 * MIB)
    drop(path, 0, 0)
    file = MappedFile(path)
    assert file.resident_share() == 0.0
    assert file.resident_share() == 0.0


def test_a_large_file_is_sampled_evenly(tmp_path: Path) -> None:
    path = tmp_path / "hole"
    with path.open("wb") as file:
        file.truncate(1000 * WINDOW_BYTES)
    mapped = MappedFile(path)
    starts = mapped._starts()
    assert len(starts) == WINDOWS
    assert starts == sorted(set(starts))
    assert starts[-1] > 980 * WINDOW_BYTES
    assert mapped.resident_share() == 0.0


def test_every_file_of_a_model_in_several_counts_by_its_size(tmp_path: Path) -> None:
    on_disk(tmp_path)
    small, large = written(tmp_path / "small", MIB), written(tmp_path / "large", 3 * MIB)
    model = MappedModel([small, large])
    assert model.resident_share() == 1.0
    drop(large, 0, 0)
    assert model.resident_share() == 0.25
    drop(small, 0, 0)
    assert model.resident_share() == 0.0


def test_many_files_cost_no_more_than_one(tmp_path: Path) -> None:
    paths = [tmp_path / str(index) for index in range(40)]
    for path in paths:
        with path.open("wb") as file:
            file.truncate(100 * WINDOW_BYTES)
    model = MappedModel(paths)
    assert sum(len(file._starts()) for file in model._files) <= WINDOWS


def test_files_that_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        MappedFile(tmp_path / "gone")
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        MappedFile(tmp_path / "empty")
    assert not can_tell(tmp_path / "gone")
    assert can_tell(tmp_path / "empty")
