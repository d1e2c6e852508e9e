"""Whatever the child does, the one who asks gets an answer or a reason, and the next question is answered."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from homespec.errors import EngineError
from homespec.footprint import Described, DescribeModel, Devices, Failed, ListDevices
from homespec.headroom import survey as survey_module
from homespec.headroom.survey import Survey
from tests.kits.models import Models

QUESTION = ListDevices()


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def reason(code: str, *, deadline_s: float = 30.0) -> str:
    async with Survey(deadline_s=deadline_s, command=child(code)) as survey:
        with pytest.raises(EngineError) as caught:
            await survey.ask(QUESTION)
    return str(caught.value)


async def test_an_abort_is_told_with_the_last_line_that_was_written() -> None:
    code = "import os, sys; print('GGML_ASSERT(n_tokens) failed', file=sys.stderr, flush=True); os.abort()"
    assert await reason(code) == "killed by SIGABRT: GGML_ASSERT(n_tokens) failed"


async def test_an_exit_is_told_with_its_code() -> None:
    assert await reason("raise SystemExit(7)") == "exited with code 7"


async def test_a_hang_ends_at_the_deadline() -> None:
    assert await reason("import time; time.sleep(600)", deadline_s=0.2) == "no answer within 0.2 s"


async def test_one_that_falls_silent_and_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "_END_TIMEOUT_S", 0.2)
    assert await reason("import os, time; os.close(1); time.sleep(600)") == "closed its output and did not end"
    children = psutil.Process().children()
    assert not any("time.sleep(600)" in " ".join(each.cmdline()) for each in children if each.is_running())


async def test_one_that_cannot_be_started_is_told() -> None:
    async with Survey(command=("/no/such/program",)) as survey:
        with pytest.raises(EngineError, match="the child could not be started: No such file or directory"):
            await survey.ask(QUESTION)


async def test_a_child_that_even_a_kill_does_not_end_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As inside a wedged driver."""
    kill = asyncio.subprocess.Process.kill
    started: list[asyncio.subprocess.Process] = []
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda child: started.append(child))
    async with Survey(deadline_s=0.05, command=(sys.executable, "-c", "import time; time.sleep(600)")) as survey:
        with pytest.raises(EngineError, match="no answer within"):
            await survey.ask(ListDevices())
    [child] = started
    assert child.returncode is None
    kill(child)
    await child.wait()


@pytest.mark.parametrize("answer", ["garbage", "[]", '{"type": "Unheard"}'])
async def test_what_is_no_answer_is_told(answer: str) -> None:
    text = await reason(f"input(); print({answer!r})")
    assert text.startswith("an answer that does not decode")


async def test_an_answer_without_end_is_told() -> None:
    assert await reason("input(); print('x' * 2**22)") == "an answer of more than 1.0 MiB in one line"


async def test_a_fresh_child_answers_after_a_death(tmp_path: Path) -> None:
    died = tmp_path / "died"
    code = (
        f"import os, pathlib\np = pathlib.Path({str(died)!r})\n"
        'if not p.exists(): p.touch(); os._exit(1)\ninput(); print(\'{"type": "Devices", "devices": []}\')'
    )
    async with Survey(command=child(code)) as survey:
        with pytest.raises(EngineError, match="exited with code 1"):
            await survey.ask(QUESTION)
        assert await survey.ask(QUESTION) == Devices(())


@pytest.mark.real
async def test_the_real_child_reads_headers_and_says_what_it_cannot_read(models: Models, tmp_path: Path) -> None:
    async with Survey() as survey:
        assert isinstance(await survey.ask(ListDevices()), Devices)
        described = await survey.ask(DescribeModel(str(models.demo)))
        gone = await survey.ask(DescribeModel(str(tmp_path / "gone.gguf")))
        again = await survey.ask(DescribeModel(str(models.demo)))
    assert isinstance(described, Described)
    assert described == again
    facts = described.facts
    assert (facts.architecture, facts.n_layer, facts.n_embd, facts.n_vocab) == ("llama", 30, 576, 49152)
    assert (facts.n_head, facts.n_head_kv, facts.head_widths, facts.n_ctx_train) == (9, 3, (64, 64), 8192)
    assert facts.file_bytes == 98_362_432
    assert facts.num_params == pytest.approx(134.5e6, rel=0.01)
    assert facts.drafter_kind == "draft"
    assert isinstance(gone, Failed)
    assert (gone.kind, "No such file" in gone.message) == ("ModelNotFound", True)
