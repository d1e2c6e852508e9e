"""The documents say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homespec import __version__
from homespec.config import Settings
from homespec.errors import ExitCode

ROOT = Path(__file__).parent.parent


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text_of("docs/configuration.md"), re.MULTILINE))
    assert list(rows) == list(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        default = field.default
        shown = "none" if default in (None, ()) else str(default).lower() if isinstance(default, bool) else str(default)
        assert rows[name].strip() == shown, name


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", text_of("docs/commands.md"), re.MULTILINE)
    assert [(int(code), name) for code, name in rows] == [(code.value, code.name) for code in ExitCode]


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#][^)]*)\)", text_of(document)):
        if "://" not in target:
            assert ((ROOT / document).parent / target.partition("#")[0]).exists(), target


def test_the_pinned_library_is_the_documented_one() -> None:
    [pinned] = re.findall(r'"llama-cpp-python==([\d.]+)"', text_of("pyproject.toml"))
    assert f"llama-cpp-python=={pinned}" in text_of("README.md")


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert re.search(r"^## Unreleased$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
