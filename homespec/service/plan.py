"""What an installation writes and runs, as values, and the one place where they take effect."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import ServiceError

MARK = "Written by 'homespec service install'"
_COMMAND_TIMEOUT_S = 90


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    text: str
    is_yours: bool = False
    """Written once as a start, then left alone: it is edited by people."""
    is_secret: bool = False
    """For its owner's eyes: keys may be put into it."""


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    may_fail: bool = False
    """It undoes what may not have been done."""

    def __str__(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class Plan:
    writes: tuple[File, ...] = ()
    before: tuple[Command, ...] = ()
    """Run before files go."""
    removes: tuple[Path, ...] = ()
    after: tuple[Command, ...] = ()

    def describe(self) -> str:
        """All of it as text for people, for --dry-run."""
        parts = [f"# {file.path}{' (kept if it exists)' if file.is_yours else ''}\n{file.text}" for file in self.writes]
        parts += [f"$ {command}" for command in self.before]
        parts += [f"rm {shlex.quote(str(path))}" for path in self.removes]
        parts += [f"$ {command}" for command in self.after]
        return "\n".join(parts)

    def apply(self) -> list[str]:
        """Do it; a line for each step. Doing it again changes nothing. Raises ServiceError."""
        for file in self.writes:
            _check_ours(file)
        done = [_write(file) for file in self.writes]
        done += [_run(command) for command in self.before]
        done += [_remove(path) for path in self.removes]
        done += [_run(command) for command in self.after]
        return done


def tool(name: str, remedy: str) -> str:
    """Full path of a program. Raises ServiceError with the remedy when it is missing."""
    found = shutil.which(name)
    if found is None:
        raise ServiceError(f"{name} is not on this machine; {remedy}")
    return found


def _check_ours(file: File) -> None:
    text = _read(file.path)
    if text is not None and not file.is_yours and MARK not in text:
        raise ServiceError(f"{file.path} exists and was not written by homespec; move it away and try again")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ServiceError(_denied("read", path, error)) from error


def _write(file: File) -> str:
    text = _read(file.path)
    if text is not None and (file.is_yours or text == file.text):
        return f"{file.path}: {'kept' if file.is_yours else 'unchanged'}"
    temporary = file.path.with_name(f".{file.path.name}.{os.getpid()}.tmp")
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(mode=0o600 if file.is_secret else 0o666)
        temporary.write_text(file.text, encoding="utf-8")
        temporary.replace(file.path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ServiceError(_denied("written", file.path, error)) from error
    return f"{file.path}: written"


def _remove(path: Path) -> str:
    text = _read(path)
    if text is None:
        return f"{path}: not there"
    if MARK not in text:
        return f"{path}: kept, it was not written by homespec"
    try:
        path.unlink()
    except OSError as error:
        raise ServiceError(_denied("removed", path, error)) from error
    return f"{path}: removed"


def _denied(verb: str, path: Path, error: OSError) -> str:
    remedy = "run it with sudo, or leave out --system" if isinstance(error, PermissionError) else "make room for it"
    return f"{path} cannot be {verb}: {error.strerror}; {remedy}"


def _run(command: Command) -> str:
    try:
        done = subprocess.run(command.argv, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"{command}: {error}") from error
    if done.returncode and not command.may_fail:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise ServiceError(f"'{command}' failed: {said}")
    return f"$ {command}"
