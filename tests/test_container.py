"""The container file, read line by line: what can be held against the repository is, without building it."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

import pytest

from homespec.config import Settings
from homespec.config.sources import ENV_PREFIX
from homespec.ports import DEFAULT_PORT

ROOT = Path(__file__).parents[1]
FILE = ROOT / "packaging" / "container" / "Containerfile"
INSTRUCTIONS = re.compile("ARG|CMD|COPY|ENTRYPOINT|ENV|EXPOSE|FROM|HEALTHCHECK|RUN|STOPSIGNAL|USER|VOLUME|WORKDIR")


def parse(text: str) -> list[tuple[str, str]]:
    """Instructions and their arguments: comments go, a backslash joins lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, re.sub(r"\s+", " ", rest).strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    return parse(FILE.read_text())


def arguments(steps: list[tuple[str, str]], instruction: str) -> list[str]:
    return [rest for word, rest in steps if word == instruction]


def last_stage(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    start = max(at for at, (word, _) in enumerate(steps) if word == "FROM")
    return steps[start:]


def test_every_line_is_an_instruction(steps: list[tuple[str, str]]) -> None:
    for word, rest in steps:
        assert INSTRUCTIONS.fullmatch(word), word
        assert rest


def test_what_is_copied_is_there_and_not_ignored(steps: list[tuple[str, str]]) -> None:
    ignored = (ROOT / ".containerignore").read_text().split()
    for rest in arguments(steps, "COPY"):
        if rest.startswith("--from="):
            assert rest.split()[0] == "--from=build"
            continue
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert not any(fnmatch.fnmatch(source, pattern) for pattern in ignored), source


def test_the_metadata_finds_its_files(steps: list[tuple[str, str]]) -> None:
    """pyproject.toml names the readme and the licence: the wheel is not built without them."""
    copied = {source for rest in arguments(steps, "COPY") for source in rest.split()[:-1]}
    assert {"pyproject.toml", "README.md", "LICENSE", "homespec", "constraints.txt"} <= copied


def test_the_pinned_library_is_built_first(steps: list[tuple[str, str]]) -> None:
    [line] = re.findall(r"^llama[_-]cpp[_-]python==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert any("grep '^llama" in rest for rest in arguments(steps, "RUN"))
    assert line


def test_it_runs_as_a_user_without_rights_and_tells_whether_it_is_well(steps: list[tuple[str, str]]) -> None:
    stage = last_stage(steps)
    assert len(arguments(steps, "FROM")) == 2
    assert arguments(stage, "USER") == ["homespec"]
    assert arguments(stage, "EXPOSE") == [str(DEFAULT_PORT)]
    assert arguments(stage, "VOLUME") == ["/var/lib/homespec/models"]
    [check] = arguments(stage, "HEALTHCHECK")
    program = json.loads(check.partition("CMD ")[2])
    assert f"127.0.0.1:{DEFAULT_PORT}/health" in program[-1]
    compile(program[-1], "healthcheck", "exec")
    assert json.loads(arguments(stage, "ENTRYPOINT")[0]) == ["homespec"]
    assert json.loads(arguments(stage, "CMD")[0]) == ["serve"]


def test_its_settings_are_settings_and_hold_no_secret(steps: list[tuple[str, str]]) -> None:
    names = re.findall(r"\b([A-Z][A-Z_]+)=", " ".join(arguments(steps, "ENV")))
    ours = {name.removeprefix(ENV_PREFIX).lower() for name in names if name.startswith(ENV_PREFIX)}
    assert ours <= Settings.model_fields.keys()
    assert not ours & {"api_key", "insecure"}
