"""The container file, read line by line: what can be held against the repository is, without building it."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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


def environment_of(steps: list[tuple[str, str]]) -> dict[str, str]:
    return dict(word.split("=", 1) for rest in arguments(steps, "ENV") for word in rest.split())


@contextmanager
def answering(status: int | None) -> Iterator[int]:
    """The port of a server that answers /health so; of none for None."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response((status or 500) if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_address[1]
        if status is None:
            server.server_close()
            yield port
            return
        Thread(target=server.serve_forever, daemon=True).start()
        yield port
        server.shutdown()


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


def test_the_pinned_library_is_built_once(steps: list[tuple[str, str]]) -> None:
    """Neither the program nor which extras are wanted may build it anew: that takes minutes."""
    assert re.search(r"^llama[_-]cpp[_-]python==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    [library] = [
        at for at, (_, rest) in enumerate(steps) if rest.endswith("--constraint constraints.txt llama-cpp-python")
    ]
    before = [rest for _, rest in steps[:library]]
    assert "constraints.txt ./" in before
    assert not any(word in rest for rest in before for word in ("homespec homespec", "pyproject", "EXTRAS"))


def test_the_extras_of_the_example_are_extras(steps: list[tuple[str, str]]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [example] = re.findall(r'EXTRAS="\[(.+)\]"', FILE.read_text())
    assert set(example.split(",")) <= extras.keys()
    assert any(rest.endswith('".${EXTRAS}"') for rest in arguments(steps, "RUN"))


@pytest.mark.parametrize("text", [FILE.read_text(), (ROOT / "docs/install.md").read_text()], ids=["file", "docs"])
def test_the_build_that_is_told_keeps_the_health_check(text: str) -> None:
    """Images of the other format have none."""
    commands = re.findall(r"^(?:#   )?podman build .+$", text, re.MULTILINE)
    assert commands
    for command in commands:
        assert "--format docker" in command
        assert f"-f {FILE.relative_to(ROOT)}" in command


def test_it_runs_as_a_user_without_rights_and_tells_whether_it_is_well(steps: list[tuple[str, str]]) -> None:
    stage = last_stage(steps)
    assert len(arguments(steps, "FROM")) == 2
    assert arguments(stage, "USER") == ["homespec"]
    assert arguments(stage, "EXPOSE") == [str(DEFAULT_PORT)]
    assert json.loads(arguments(stage, "ENTRYPOINT")[0]) == ["homespec"]
    assert json.loads(arguments(stage, "CMD")[0]) == ["serve"]


def test_what_is_written_outlives_the_container_and_belongs_to_its_user(steps: list[tuple[str, str]]) -> None:
    """With a root that is read-only as well: the folders are those that the program asks for."""
    stage = last_stage(steps)
    environment = environment_of(stage)
    folders = [f"{environment['XDG_DATA_HOME']}/homespec/models", f"{environment['XDG_CACHE_HOME']}/homespec"]
    assert arguments(stage, "VOLUME") == [" ".join(folders)]
    assert environment["HF_HOME"].startswith(f"{folders[1]}/")
    [setup] = [rest for rest in arguments(stage, "RUN") if "useradd" in rest]
    owned = setup.partition("--owner=homespec --group=homespec ")[2].split()
    assert {*folders, environment["HOME"]} <= set(owned)
    assert "--system" not in setup, "such a user may not have this number"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_asks_itself_whatever_proxy_there_is(
    steps: list[tuple[str, str]], status: int | None, code: int
) -> None:
    [check] = arguments(last_stage(steps), "HEALTHCHECK")
    *python, program = json.loads(check.partition("CMD ")[2])
    assert python == ["python", "-c"]
    assert f"'127.0.0.1', {DEFAULT_PORT}" in program
    with answering(status) as port:
        done = subprocess.run(
            [sys.executable, "-c", program.replace(str(DEFAULT_PORT), str(port))],
            env={**os.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""},
            capture_output=True,
            check=False,
        )
    assert done.returncode == code, done.stderr


def test_its_settings_are_settings_and_hold_no_secret(steps: list[tuple[str, str]]) -> None:
    names = environment_of(steps)
    ours = {name.removeprefix(ENV_PREFIX).lower() for name in names if name.startswith(ENV_PREFIX)}
    assert ours <= Settings.model_fields.keys()
    assert not ours & {"api_key", "insecure"}
