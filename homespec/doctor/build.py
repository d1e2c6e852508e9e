"""The native library: does it load, is it the right one, does it use the processor, which drafters does it run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import msgspec

from homespec.doctor.check import Check, fail, ok, warn
from homespec.units import format_exit

FACTS_TIMEOUT_S = 120
_COMMAND = (sys.executable, "-P", "-m", "homespec.engine.facts")
_FREE_DRAFTERS = ("grammar", "suffix", "ngram")
_WORTHWHILE = {
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "asimddp": "DOTPROD",
    "i8mm": "MATMUL_INT8",
}
"""Features of processors that make answers several times faster: the kernel's name and llama.cpp's (ggml-cpu.c)."""


class Facts(msgspec.Struct, frozen=True):
    """What `homespec.engine.facts` prints."""

    llama_cpp_python: str
    llguidance: str
    numpy: str
    devices: list[str]
    threads: int
    features: list[str]
    missing_symbols: list[str]
    drafters: dict[str, list[str]]
    """By kind: the functions that it needs and this build lacks."""

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(device for device in self.devices if device != "CPU")


def read_facts(command: Sequence[str] = _COMMAND) -> Facts | str:
    """Asked of a process of its own, since an abort of the library is an answer: the facts, or why there are none."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=FACTS_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {FACTS_TIMEOUT_S} s"
    except OSError as error:
        return f"its process cannot be started: {error.strerror}"
    if done.returncode < 0:
        return format_exit(done.returncode)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    try:
        return msgspec.json.decode(done.stdout, type=Facts)
    except msgspec.DecodeError as error:
        return f"an answer that does not decode: {error}"


def read_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str] | None:
    """The kernel's names of what the processor can do; None where it does not tell."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return None


def pinned() -> str | None:
    """The release of llama-cpp-python that homespec is made for; None when it is not installed as a package."""
    try:
        requirements = metadata.requires("homespec") or []
    except metadata.PackageNotFoundError:
        return None
    versions = [each.partition("==")[2] for each in requirements if each.startswith("llama-cpp-python==")]
    return versions[0].split(";")[0].strip() if versions else None


def check_build(facts: Facts | str, processor: frozenset[str] | None, wanted: str | None) -> Iterator[Check]:
    """A check of the library, and when it loads, of what it can do."""
    version = wanted or "of pyproject.toml"
    if isinstance(facts, str):
        yield _broken(facts, version)
        return
    text = f"llama-cpp-python {facts.llama_cpp_python}, llguidance {facts.llguidance}, numpy {facts.numpy}"
    if wanted is not None and facts.llama_cpp_python != wanted:
        yield fail("library", f"{text}; homespec is made for {wanted}", f"pip install 'llama-cpp-python=={wanted}'")
    else:
        yield ok("library", text)
    yield _processor(facts, processor, version)
    yield _drafters(facts)


def _broken(reason: str, version: str) -> Check:
    if "SIGILL" in reason:
        return fail(
            "library",
            f"llama.cpp cannot be used: {reason}; this build is for another processor",
            f"build it here: pip install --force-reinstall --no-binary llama-cpp-python 'llama-cpp-python=={version}'",
        )
    return fail(
        "library",
        f"llama.cpp cannot be used: {reason}",
        f"pip install --force-reinstall --no-deps 'llama-cpp-python=={version}'",
    )


def _processor(facts: Facts, processor: frozenset[str] | None, version: str) -> Check:
    used = [name for name in _WORTHWHILE.values() if name in facts.features]
    threads = f"{facts.threads} threads"
    if processor is None:
        return ok("processor", f"{', '.join(used) or 'features not known'}; {threads}")
    unused = [name for flag, name in _WORTHWHILE.items() if flag in processor and name not in facts.features]
    if unused:
        return warn(
            "processor",
            f"it has {', '.join(unused)}, which this build does not use: answers are slower than they could be",
            f"build it here: pip install --force-reinstall --no-binary llama-cpp-python 'llama-cpp-python=={version}'",
        )
    return ok("processor", f"{', '.join(used) or 'no vector extensions'}, all in use; {threads}")


def _drafters(facts: Facts) -> Check:
    runs = [*_FREE_DRAFTERS, *(kind for kind, lacking in facts.drafters.items() if not lacking)]
    cannot = {kind: lacking for kind, lacking in facts.drafters.items() if lacking}
    if not cannot:
        return ok("drafters", f"this build runs {', '.join(runs)}")
    why = "; ".join(f"{kind} lacks {', '.join(lacking)}" for kind, lacking in cannot.items())
    return warn(
        "drafters", f"this build runs {', '.join(runs)}; {why}", "install the pinned llama-cpp-python to get the others"
    )
