"""Finding the target's file, and what can be said about it without an engine."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from homespec.errors import ConfigError, ModelCorrupt, ModelError, ModelNotFound
from homespec.store.model_file import check, demo_model, find, resolve
from tests.kits import gguf_kit


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sound header of a model without tensors."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(100))
    return path


def fault(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        check(path)
    message = str(caught.value)
    assert str(path) in message
    return message


def test_the_demo_model_is_found_without_importing_its_package(demo_path: Path) -> None:
    assert demo_model() == demo_path
    assert resolve(None, demo=True) == demo_path


def test_a_missing_demo_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homespec.store.model_file.DEMO_PACKAGE", "no_such_package")
    with pytest.raises(ModelNotFound, match=r"pip install '\.\[demo\]'"):
        demo_model()


def test_a_path_becomes_absolute(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    assert resolve("model.gguf", demo=False) == model


def test_the_home_directory_is_expanded(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(model.parent))
    assert resolve("~/model.gguf", demo=False) == model


def test_a_link_keeps_its_name(model: Path) -> None:
    """In a hub cache the link has the name, and the file is called by its hash."""
    blob = model.rename(model.with_name("0123456789abcdef"))
    model.symlink_to(blob)
    assert resolve(str(model), demo=False) == model


@pytest.mark.parametrize(("name", "demo"), [("x.gguf", True), (None, False), ("", False)])
def test_exactly_one_model_must_be_named(name: str | None, demo: bool) -> None:
    with pytest.raises(ConfigError, match="--demo"):
        resolve(name, demo=demo)


def test_a_missing_file_names_its_neighbours(model: Path) -> None:
    message = fault(model.with_name("modle.gguf"))
    assert "does not exist" in message
    assert "model.gguf" in message


def test_a_missing_folder(tmp_path: Path) -> None:
    assert "check the path" in fault(tmp_path / "nope" / "model.gguf")


def test_a_dangling_link(tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "nope")
    assert "does not exist" in fault(link)


def test_a_link_to_itself(tmp_path: Path) -> None:
    link = tmp_path / "loop.gguf"
    link.symlink_to(link)
    fault(link)


def test_a_directory(model: Path) -> None:
    message = fault(model.parent)
    assert "directory" in message
    assert "model.gguf" in message


def test_below_a_file(model: Path) -> None:
    assert "cannot be read" in fault(model / "x.gguf")


def test_a_home_that_nobody_has() -> None:
    assert "does not exist" in fault(find("~nobody-at-all/x.gguf"))


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert "cannot be read" in fault(tmp_path / ("x" * 5000))


def test_a_name_that_holds_a_zero() -> None:
    with pytest.raises(ModelNotFound):
        check(Path("/tmp/a\0b.gguf"))


def test_a_name_that_is_not_text(tmp_path: Path) -> None:
    assert "UTF-8" in fault(tmp_path / "\udcff.gguf")


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"", "empty"),
        (b"G", "starts with 'G', not with 'GGUF'"),
        (b"GGML" + bytes(100), "starts with 'GGML', not with 'GGUF'"),
        (b"\xce\x82I\n", r"starts with '\xce\x82I\n', not"),
        (b"<html>", "web page"),
        (b"\r\n\t<!doctype html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_what_is_no_model_is_called_by_its_name(model: Path, content: bytes, fragment: str) -> None:
    model.write_bytes(content)
    assert fragment in fault(model)
    with pytest.raises(ModelCorrupt):
        check(model)


def test_the_kits_look_alike(tmp_path: Path) -> None:
    assert "git lfs pull" in fault(gguf_kit.lfs_pointer(tmp_path / "pointer.gguf"))
    assert "web page" in fault(gguf_kit.web_page(tmp_path / "page.gguf"))
