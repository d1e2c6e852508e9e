"""The native library as the doctor sees it: facts from a process of its own, and what they mean."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from homespec.doctor.build import Facts, check_build, pinned, read_facts, read_processor
from homespec.doctor.check import Check, Verdict

FACTS = Facts(
    llama_cpp_python="0.3.36",
    llguidance="1.9",
    numpy="2.0",
    devices=["CPU"],
    threads=2,
    features=["AVX2", "FMA", "F16C"],
    missing_symbols=[],
    drafters={"draft": [], "mtp": []},
)
X86 = frozenset({"avx2", "fma", "f16c", "sse2"})


def checks(
    facts: Facts | str, processor: frozenset[str] | None = X86, wanted: str | None = "0.3.36"
) -> dict[str, Check]:
    return {check.name: check for check in check_build(facts, processor, wanted)}


def test_a_sound_build_has_nothing_to_remedy() -> None:
    found = checks(FACTS)
    assert [check.verdict for check in found.values()] == [Verdict.OK] * 3
    assert "grammar, suffix, ngram, draft, mtp" in found["drafters"].text


def test_another_release_of_the_library_is_named_with_the_right_one() -> None:
    check = checks(FACTS, wanted="0.3.99")["library"]
    assert check.verdict is Verdict.FAIL
    assert check.remedy == "pip install 'llama-cpp-python==0.3.99'"


def test_a_build_for_another_processor_is_told_from_a_broken_one() -> None:
    killed, broken = checks("killed by SIGILL")["library"], checks("No module named 'llama_cpp'")["library"]
    assert killed.verdict is broken.verdict is Verdict.FAIL
    assert "--no-binary llama-cpp-python" in str(killed.remedy)
    assert "llama-cpp-python==0.3.36" in str(broken.remedy)
    assert "--no-binary" not in str(broken.remedy)


@pytest.mark.parametrize(
    ("processor", "features", "unused"),
    [
        (X86, ["AVX2", "F16C"], "FMA"),
        (frozenset({"asimddp", "i8mm"}), ["DOTPROD"], "MATMUL_INT8"),
        (frozenset({"sse2"}), [], None),
        (None, [], None),
    ],
)
def test_what_the_processor_has_and_the_build_leaves(
    processor: frozenset[str] | None, features: list[str], unused: str | None
) -> None:
    check = checks(msgspec.structs.replace(FACTS, features=features), processor)["processor"]
    assert check.verdict is (Verdict.WARN if unused else Verdict.OK)
    assert unused is None or f"it has {unused}, which" in check.text


def test_a_drafter_without_its_functions_is_named_with_them() -> None:
    facts = msgspec.structs.replace(FACTS, drafters={"draft": [], "eagle3": ["llama_x"]})
    check = checks(facts)["drafters"]
    assert check.verdict is Verdict.WARN
    assert "eagle3 lacks llama_x" in check.text


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "killed by SIGILL"),
        ("raise ImportError('libllama.so: cannot open')", "ImportError: libllama.so: cannot open"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.write(2, b'lib\\xe9.so'); raise SystemExit(1)", "lib\ufffd.so"),
        ("print('ggml: hello')", "an answer that does not decode: JSON is malformed: invalid character (byte 0)"),
    ],
)
def test_how_the_process_ends_is_the_reason(program: str, reason: str) -> None:
    assert read_facts((sys.executable, "-c", program)) == reason


def test_a_process_that_cannot_be_started_is_a_reason(tmp_path: Path) -> None:
    assert read_facts((str(tmp_path / "gone"),)) == "its process cannot be started: No such file or directory"


def test_the_processor_is_read_where_the_kernel_tells(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu avx2\n\nprocessor : 1\nflags : none\n")
    assert read_processor(cpuinfo) == frozenset({"fpu", "avx2"})
    cpuinfo.write_text("Features : fp asimddp")
    assert read_processor(cpuinfo) == frozenset({"fp", "asimddp"})
    assert read_processor(tmp_path / "gone") is None


def test_the_pinned_release_is_the_one_of_the_project() -> None:
    assert f"llama-cpp-python=={pinned()}" in (Path(__file__).parents[2] / "pyproject.toml").read_text()
