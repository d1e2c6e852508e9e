"""The documents say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homespec import __version__, reference
from homespec.config import Settings
from homespec.config.settings import OF_A_MODEL
from homespec.errors import ExitCode
from homespec.headroom.marks import WantedMarks
from homespec.profiles.profile import profiles
from homespec.store.suggestions import FAMILIES
from homespec.units import GIB, MIB

ROOT = Path(__file__).parent.parent


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text_of("docs/configuration.md"), re.MULTILINE))
    assert list(rows) == list(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        default = field.default
        shown = (
            "none" if default in (None, (), {}) else str(default).lower() if isinstance(default, bool) else str(default)
        )
        assert rows[name].strip() == shown, name


def test_what_a_table_of_models_may_hold_is_documented() -> None:
    [named] = re.findall(r"A table may hold (.+?)\. What", text_of("docs/configuration.md"), re.DOTALL)
    assert tuple(re.findall(r"`(\w+)`", named)) == ("path", *OF_A_MODEL)


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", text_of("docs/commands.md"), re.MULTILINE)
    assert [(int(code), name) for code, name in rows] == [(code.value, code.name) for code in ExitCode]


DOCUMENTS = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(document)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        page = (ROOT / document).parent / name if name else ROOT / document
        assert page.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}, target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_rows_have_the_columns_of_their_table(document: str) -> None:
    """A bar within code divides a cell as well, unless it is escaped; what follows is not shown."""
    for table in re.findall(r"(?:^\|.*\n)+", text_of(document), re.MULTILINE):
        heading, *rows = ([*re.finditer(r"(?<!\\)\|", row)] for row in table.splitlines())
        for row in rows:
            assert len(row) == len(heading), row[0].string


def test_the_pinned_library_is_the_documented_one() -> None:
    [pinned] = re.findall(r'"llama-cpp-python==([\d.]+)"', text_of("pyproject.toml"))
    assert f"llama-cpp-python=={pinned}" in text_of("README.md")


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert re.search(r"^## Unreleased$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


@pytest.mark.parametrize("name", list(reference.files()))
def test_what_the_program_prints_is_what_the_documents_show(name: str) -> None:
    assert text_of(f"docs/{name}") == reference.files()[name], "run 'make docs'"


def test_every_command_is_described() -> None:
    commands = re.findall(r"^## (homespec .+)$", text_of("docs/help.md"), re.MULTILINE)
    described = text_of("docs/commands.md")
    for command in commands:
        assert command in described or command.rpartition(" ")[0] in described, command
        assert command.split()[1] in described, command


def test_quoted_messages_are_those_of_the_program() -> None:
    """Of each message in the first column of a table, the words between what varies."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "homespec").rglob("*.py")))
    joined = re.sub(r'"\s*\n\s*f?"', "", sources)
    rows = re.findall(r"^\| (.+?) \|", text_of("docs/troubleshooting.md"), re.MULTILINE)
    messages = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    assert len(messages) > 30
    for message in messages:
        for words in message.split("…"):
            assert words.strip("' ()?") in joined, message


def test_the_marks_in_the_text_are_those_that_are_taken() -> None:
    rows = re.findall(
        r"^\| (\d+) GiB.* \| (\d+) MiB \| (\d+) MiB \| (\d+) MiB \|", text_of("docs/memory.md"), re.MULTILINE
    )
    assert len(rows) == 4
    for size, *stated in rows:
        marks = WantedMarks().on(int(size) * GIB)
        taken = (marks.reserve_bytes, marks.low_bytes, marks.high_bytes)
        assert [round(mark / MIB) for mark in taken] == [int(mark) for mark in stated], size


def test_every_suggested_repository_is_on_the_page_about_choosing_or_in_a_profile() -> None:
    text = text_of("docs/choosing.md")
    for model in FAMILIES.values():
        assert model in text
    for profile in profiles():
        assert f"| `{profile.name}` |" in text_of("docs/profiles.md")
