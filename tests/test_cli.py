"""Faults on the command line, in the environment and in files: one line, a documented exit code, no traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from homespec import __version__
from homespec.errors import ExitCode
from tests.daemons import FinishedCommand, clean_environment, run_command, run_serve, running
from tests.kits import gguf_kit
from tests.kits.models import Models

pytestmark = pytest.mark.process


def complains(finished: FinishedCommand, code: ExitCode, *fragments: str) -> None:
    """One line on stderr that holds the fragments, nothing on stdout."""
    line = finished.complaint
    assert line.startswith("homespec: ")
    for fragment in fragments:
        assert fragment in line
    assert finished.code == code


@pytest.mark.parametrize(
    ("arguments", "code", "fragments"),
    [
        pytest.param(["serve", "--ctxx", "5"], ExitCode.USAGE, ["--ctxx", "--ctx)", "--help"], id="unknown flag"),
        pytest.param(["srve"], ExitCode.USAGE, ["'srve'", "'serve'", "--help"], id="unknown command"),
        pytest.param(["serve", "a", "b"], ExitCode.USAGE, ["(b)", "'homespec serve --help'"], id="two models"),
        pytest.param(["serve", "--draft"], ExitCode.USAGE, ["--draft", "argument"], id="flag without its value"),
        pytest.param(
            ["config", "shw"], ExitCode.USAGE, ["'show'? See 'homespec config --help'"], id="unknown subcommand"
        ),
        pytest.param(["serve"], ExitCode.CONFIG, ["no model", "--demo"], id="no model"),
        pytest.param(["serve", "x.gguf", "--demo"], ExitCode.CONFIG, ["x.gguf", "--demo"], id="model and demo"),
        pytest.param(["serve", "--demo", "--port", "abc"], ExitCode.CONFIG, ["--port", "'abc'"], id="port of letters"),
        pytest.param(["serve", "--demo", "--ctx", "-5"], ExitCode.CONFIG, ["--ctx", "-5", "256"], id="negative ctx"),
        pytest.param(
            ["serve", "--demo", "--host", "0.0.0.0"], ExitCode.CONFIG, ["0.0.0.0", "--insecure"], id="open to all"
        ),
        pytest.param(
            ["serve", "--demo", "--api-key-file", "/nope"], ExitCode.CONFIG, ["/nope", "No such file"], id="no key file"
        ),
        pytest.param(
            ["serve", "--demo", "--host", "nope.invalid", "--insecure"],
            ExitCode.ADDRESS_IN_USE,
            ["'nope.invalid'", "--host"],
            id="host without an address",
        ),
        pytest.param(["serve", "--config", "/nope.toml"], ExitCode.CONFIG, ["/nope.toml", "--config"], id="no file"),
    ],
)
def test_flags(tmp_path: Path, arguments: list[str], code: ExitCode, fragments: list[str]) -> None:
    complains(run_command(tmp_path, *arguments), code, *fragments)


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        pytest.param("slotz = 4", ["'slotz'", "'slots'"], id="unknown key"),
        pytest.param("slots = 'four'", ["slots", "'four'"], id="wrong type"),
        pytest.param("slots == 4", ["not valid TOML", "line 1"], id="broken"),
        pytest.param("api_key = 'secret-in-file'", ["HOMESPEC_API_KEY", "api_key_file"], id="key in the file"),
    ],
)
def test_configuration_file(tmp_path: Path, text: str, fragments: list[str]) -> None:
    path = tmp_path / "homespec.toml"
    path.write_text(text)
    finished = run_serve(tmp_path, "--demo", "--config", str(path))
    complains(finished, ExitCode.CONFIG, str(path), *fragments)
    assert "secret-in-file" not in finished.complaint


@pytest.mark.parametrize(
    ("variable", "value", "fragments"),
    [
        ("HOMESPEC_SLOTZ", "4", ["HOMESPEC_SLOTZ", "'HOMESPEC_SLOTS'"]),
        ("HOMESPEC_SLOTS", "four", ["HOMESPEC_SLOTS", "'four'"]),
    ],
)
def test_environment(tmp_path: Path, variable: str, value: str, fragments: list[str]) -> None:
    complains(run_serve(tmp_path, "--demo", environment={variable: value}), ExitCode.CONFIG, *fragments)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "there.gguf").touch()
    missing = tmp_path / "nope.gguf"
    finished = run_serve(tmp_path, str(missing))
    complains(finished, ExitCode.MODEL, str(missing), "does not exist", "there.gguf")


def test_a_model_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "there.gguf").touch()
    finished = run_serve(tmp_path, str(tmp_path))
    complains(finished, ExitCode.MODEL, str(tmp_path), "directory", "there.gguf")


def test_a_model_that_cannot_be_read(models: Models, tmp_path: Path) -> None:
    """Below a file there is nothing that even root can open."""
    path = models.letters / "model.gguf"
    complains(run_serve(tmp_path, str(path)), ExitCode.MODEL, str(path), "Not a directory", "permissions")


def test_a_model_whose_name_is_not_text(models: Models, tmp_path: Path) -> None:
    path = tmp_path / "\udcff.gguf"
    path.symlink_to(models.letters)
    complains(run_serve(tmp_path, str(path)), ExitCode.MODEL, "\\udcff.gguf", "UTF-8", "rename")


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        pytest.param(b"", ["is empty", "download"], id="empty"),
        pytest.param(b"PK\x03\x04" + b"\0" * 100, ["not a GGUF", "PK"], id="zip"),
        pytest.param(b"<!DOCTYPE html><html><title>Sign in</title>", ["web page", "download"], id="web page"),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 98362432\n",
            ["Git LFS pointer", "git lfs pull"],
            id="LFS pointer",
        ),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, fragments: list[str]) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    complains(run_serve(tmp_path, str(path)), ExitCode.MODEL, str(path), *fragments)


def engine_complains(finished: FinishedCommand, *fragments: str) -> None:
    """Faults that the engine finds come after the start, so there are lines before the complaint."""
    assert finished.code == ExitCode.MODEL
    assert finished.stdout == ""
    assert "Traceback" not in finished.stderr
    [complaint] = [line for line in finished.stderr.splitlines() if line.startswith("homespec: ")]
    assert complaint == finished.stderr.splitlines()[-1]
    for fragment in fragments:
        assert fragment in complaint


ANY_PORT = ("--port", "0")


def test_a_model_that_is_cut_short(demo_path: Path, tmp_path: Path) -> None:
    size = 50_000_000
    path = gguf_kit.truncated(demo_path, tmp_path / "cut.gguf", size)
    finished = run_serve(tmp_path, str(path), *ANY_PORT)
    engine_complains(finished, str(path), "cut short", str(size), "download it again")


def test_a_model_without_its_last_byte(models: Models, tmp_path: Path) -> None:
    size = models.letters.stat().st_size - 1
    path = gguf_kit.truncated(models.letters, tmp_path / "cut.gguf", size)
    engine_complains(run_serve(tmp_path, str(path), *ANY_PORT), "cut short", str(size), str(size + 1))


@pytest.mark.parametrize("size", [24, 1000])
def test_a_model_with_half_a_header(models: Models, tmp_path: Path, size: int) -> None:
    path = gguf_kit.truncated(models.letters, tmp_path / "cut.gguf", size)
    engine_complains(run_serve(tmp_path, str(path), *ANY_PORT), str(path), "header", "download it again")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
@pytest.mark.parametrize("command", [("config", "show"), ("plan", "--demo")])
def test_output_that_nobody_has_room_for_is_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "homespec", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(tmp_path),
            check=False,
        )
    assert done.returncode == ExitCode.FAILURE
    assert done.stderr == "homespec: the output cannot be written: No space left on device; make room where it goes\n"


def test_an_unknown_architecture_is_not_called_a_broken_file(models: Models, tmp_path: Path) -> None:
    model = gguf_kit.markov_llama(gguf_kit.permutation())
    path = replace(model, architecture="nextyear").write(tmp_path / "new.gguf")
    finished = run_serve(tmp_path, str(path), *ANY_PORT)
    engine_complains(finished, str(path), "'nextyear'", "llama-cpp-python")
    assert "download" not in finished.stderr


def test_a_port_that_is_taken(models: Models, tmp_path: Path) -> None:
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        finished = run_serve(tmp_path, str(models.letters), "--port", port)
    complains(finished, ExitCode.ADDRESS_IN_USE, port, "127.0.0.1", "--port")


def test_a_daemon_keeps_its_port(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters), wait=False) as daemon:
        port = daemon.url.rpartition(":")[2]
        finished = run_serve(tmp_path, str(models.letters), "--port", port)
        complains(finished, ExitCode.ADDRESS_IN_USE, port)
        assert daemon.alive


def test_no_command_shows_the_help_on_stdout(tmp_path: Path) -> None:
    bare, asked = run_command(tmp_path), run_command(tmp_path, "--help")
    assert bare.stdout == asked.stdout
    assert "serve" in bare.stdout
    assert bare.stderr == ""
    assert bare.code == ExitCode.OK


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version(tmp_path: Path, word: str) -> None:
    finished = run_command(tmp_path, word)
    assert (finished.code, finished.stdout, finished.stderr) == (ExitCode.OK, f"{__version__}\n", "")
