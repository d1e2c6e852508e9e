"""`homespec derive` as people run it, on a tiny model."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from homespec.derive import making
from homespec.derive.child import run_child
from homespec.derive.recipe import Recipe
from homespec.engine.derive import measure
from homespec.engine.llama.gguf import open_header
from homespec.errors import DeriveError, ExitCode
from homespec.store.companions import Companion, companions
from homespec.units import format_bytes
from tests.daemons import FinishedCommand, clean_environment, eventually, run_command
from tests.kits.engines import ask, running
from tests.kits.gemma_kit import gemma4_markov
from tests.kits.gguf_kit import Shape, byte_vocabulary, follow, random_llama, truncated
from tests.kits.heads_kit import mtp_markov
from tests.kits.models import LETTERS, Models
from tests.kits.splitting import split

pytestmark = [pytest.mark.process, pytest.mark.real]

NUM_LAYERS = 4


@pytest.fixture
def model(models: Models, tmp_path: Path) -> Path:
    """In a folder of its own."""
    source = models.write("derivable", random_llama(byte_vocabulary(), seed=8, shape=Shape(n_layer=NUM_LAYERS)))
    return Path(shutil.copy(source, tmp_path / "model.gguf"))


def derive(model: Path, *arguments: str) -> FinishedCommand:
    return run_command(model.parent, "derive", str(model), *arguments)


def left_in(folder: Path) -> list[str]:
    """Files, hidden ones included; the folders of a clean environment are no matter."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def block_count(path: Path) -> int:
    with open_header(path) as header:
        return int(header.get("llama.block_count"))  # type: ignore[arg-type]


def test_a_model_of_the_store_is_known_by_its_name(model: Path) -> None:
    environment = {"HOMESPEC_MODELS_DIR": str(model.parent)}
    done = run_command(model.parent, "derive", "model", "--quant", "Q4_0", "--prompts", "0", environment=environment)
    assert (done.code, done.stderr) == (ExitCode.OK, "")
    assert model.with_name("model.draft-Q4_0.gguf").exists()


def test_what_is_to_be_typed_can_be_typed(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my models"
    folder.mkdir()
    spaced = model.rename(folder / "a model.gguf")
    done = derive(spaced, "--quant", "Q4_0", "--output", str(folder / "b copy.gguf"), "--prompts", "0")
    command = shlex.split(done.stdout.splitlines()[-1].partition("homespec ")[2])
    assert command == ["serve", str(spaced), "--draft", str(folder / "b copy.gguf")]


def test_a_home_that_is_not_there_leads_nowhere(model: Path) -> None:
    done = derive(model, "--quant", "Q4_0", "--output", "~nobody-is-called-so/copy.gguf")
    assert done.code == ExitCode.FAILURE
    assert "~nobody-is-called-so is not a directory" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "name", "layers"),
    [
        (["--quant", "Q4_0"], "model.draft-Q4_0.gguf", NUM_LAYERS),
        (["--quant", "Q4_0", "--keep-layers", "0-1,3"], "model.draft-Q4_0-layers-0-1+3.gguf", 3),
    ],
)
def test_the_copy_lies_beside_the_model_drafts_for_it_and_its_worth_is_told(
    model: Path, arguments: Sequence[str], name: str, layers: int
) -> None:
    done = derive(model, *arguments, "--prompts", "1")
    assert (done.code, done.stderr) == (ExitCode.OK, "")
    facts = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    copy = Path(facts["copy"])
    assert copy == model.with_name(name)
    assert left_in(model.parent) == sorted([name, model.name])
    assert copy.stat().st_size < model.stat().st_size
    assert block_count(copy) == layers
    assert "tokens per pass at D = 4" in facts["acceptance"]
    assert "tok/s" in facts["speed"]
    assert ("worth" in facts) is ("use" not in facts), "a copy is recommended where it was faster"
    with running(model, draft=copy, n_ctx=256) as driver:
        plain, drafted = driver.run(*(ask(b"derived", mode=mode, max_tokens=60) for mode in ("off", "draft")))
        assert drafted.token_ids == plain.token_ids
        assert drafted.speculation.drafted > 0


def test_a_copy_tells_when_another_file_has_got_the_name_of_its_model(model: Path) -> None:
    recipe = Recipe("Q4_0", None)
    copy = making.derive(model, recipe, output=None, force=False, num_prompts=0)
    assert companions(model) == (Companion(copy),)
    random_llama(byte_vocabulary(), seed=9, shape=Shape(n_layer=NUM_LAYERS)).write(model)
    [outdated] = companions(model)
    assert "made of another file" in str(outdated.unusable)
    assert making.derive(model, recipe, output=None, force=True, num_prompts=0) == copy
    assert companions(model) == (Companion(copy),)


@pytest.mark.parametrize(
    ("recipe", "blocks", "num_mtp_blocks"),
    [
        (Recipe("Q4_0", None), 3, 1),
        (Recipe(None, (0,)), 1, 0),
        (Recipe("Q4_0", (1,)), 1, 0),
    ],
)
def test_an_mtp_block_stays_whole_or_goes_with_the_layers(
    models: Models, tmp_path: Path, recipe: Recipe, blocks: int, num_mtp_blocks: int
) -> None:
    """The trunk's layers are dense and the block is not: llama.cpp tells by their number which is which."""
    model = mtp_markov(models.chain).write(tmp_path / "model.gguf")
    copy = making.derive(model, recipe, output=None, force=False, num_prompts=0)
    with open_header(copy) as header:
        keys = {key: header.get(f"glm4moe.{key}") for key in ("block_count", "nextn_predict_layers")}
        names = {tensor.name for tensor in header.tensors()}
    assert keys == {"block_count": blocks, "nextn_predict_layers": num_mtp_blocks}
    assert {int(name.split(".")[1]) for name in names if name.startswith("blk.")} == set(range(blocks))
    assert sum(name.endswith("nextn.eh_proj.weight") for name in names) == num_mtp_blocks
    with running(model, draft=copy, n_ctx=256) as driver:
        [answer] = driver.run(ask([5, 6], mode="draft", max_tokens=40))
        assert answer.token_ids == follow(models.chain, 6, 40)
        assert answer.speculation.accepted == answer.speculation.drafted > 20


def test_layers_that_a_key_lists_cannot_be_left_out(models: Models, tmp_path: Path) -> None:
    """llama.cpp would refuse the copy."""
    model = gemma4_markov(models.chain).write(tmp_path / "model.gguf")
    with pytest.raises(DeriveError, match=r"'gemma4.attention.sliding_window_pattern' has a value for each layer"):
        making.derive(model, Recipe(None, (0,)), output=None, force=False)
    assert left_in(tmp_path) == ["model.gguf"]
    assert making.derive(model, Recipe("Q4_0", None), output=None, force=False, num_prompts=1).exists()


NONSENSE = [
    (Recipe("Q8_0", None), None, "smaller than its target"),
    (Recipe(None, (0, 1, 2, 3)), None, "smaller than its target"),
    (Recipe(None, (0, 7)), None, "layer 7 .* 0 to 3"),
    (Recipe("Q4_0", None), "model.gguf", "the model itself"),
    (Recipe("Q4_0", None), "nowhere/a.gguf", "nowhere"),
    (Recipe("Q4_0", None), ".", "is a directory"),
    (Recipe("Q4_0", None), "taken.gguf", "taken.gguf .*--force"),
]


@pytest.mark.parametrize(("recipe", "output", "reason"), NONSENSE)
def test_nonsense_is_refused_and_leaves_nothing(model: Path, recipe: Recipe, output: str | None, reason: str) -> None:
    (model.parent / "taken.gguf").write_text("something else")
    before = left_in(model.parent)
    with pytest.raises(DeriveError, match=reason):
        making.derive(model, recipe, output=model.parent / output if output else None, force=False)
    assert left_in(model.parent) == before
    assert (model.parent / "taken.gguf").read_text() == "something else"


def test_a_refusal_is_one_line(model: Path) -> None:
    done = derive(model, "--quant", "Q9")
    assert done.code == ExitCode.FAILURE
    assert "'Q9'" in done.complaint


def test_a_file_that_is_there_is_replaced_only_when_told_so(model: Path) -> None:
    taken = model.with_name("taken.gguf")
    taken.write_text("something else")
    done = derive(model, "--quant", "Q4_0", "--output", str(taken), "--force", "--prompts", "0")
    assert done.code == ExitCode.OK
    assert block_count(taken) == NUM_LAYERS


def test_what_a_killed_process_left_is_removed_and_what_a_running_one_writes_is_not(model: Path) -> None:
    name = model.with_name("model.draft-Q4_0.gguf").name
    dead, alive, other = (f".{name}.{pid}.part" for pid in (2**22 + 1, os.getppid(), "notes"))
    for left in (dead, alive, other):
        (model.parent / left).write_bytes(b"half")
    making.derive(model, Recipe("Q4_0", None), output=None, force=False, num_prompts=0)
    assert left_in(model.parent) == sorted([alive, other, name, model.name])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_the_writer_dies_with_the_command_and_leaves_no_copy(models: Models, tmp_path: Path) -> None:
    """A stopped process cannot notice anything by itself: the kernel has to end it."""
    model = tmp_path / "model.gguf"
    model.symlink_to(models.demo)
    command = subprocess.Popen(
        [sys.executable, "-m", "homespec", "derive", str(model), "--quant", "Q2_K", "--prompts", "0"],
        cwd=tmp_path,
        env=clean_environment(tmp_path),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    with command:
        [partial] = eventually(lambda: list(tmp_path.glob(".*.part")), "a copy is being written")
        [writer] = psutil.Process(command.pid).children()
        try:
            writer.suspend()
            command.kill()
            command.wait()
            eventually(lambda: not is_alive(writer), "the writer has ended")
        finally:
            with suppress(psutil.NoSuchProcess):
                writer.kill()
    assert left_in(tmp_path) == [partial.name, model.name]


def is_alive(process: psutil.Process) -> bool:
    """Whoever collects what orphans leave may take its time."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_writer_that_nobody_listens_to_ends(model: Path) -> None:
    """Where the kernel does not tell, or the command has died before the writer could ask it to."""
    reading, writing = os.pipe()
    os.close(reading)
    options = {"model": str(model), "parts": [str(model)], "quant": "Q4_0", "layers": None}
    with os.fdopen(writing, "wb") as nobody:
        ended = subprocess.run(
            [sys.executable, "-m", "homespec.engine.derive", "plan", json.dumps(options)],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_copy_that_is_not_whole_is_never_published(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = run_child

    def full_disk(job: str, options: dict[str, Any], **more: Any) -> dict[str, Any]:
        result = honest(job, options, **more)
        if job == "quantize":
            written = Path(options["output"])
            os.truncate(written, written.stat().st_size - 64)
        return result

    monkeypatch.setattr(making, "run_child", full_disk)
    with pytest.raises(DeriveError, match="not whole"):
        making.derive(model, Recipe("Q4_0", None), output=None, force=False)
    assert left_in(model.parent) == [model.name]


def test_of_a_split_model_all_parts_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = random_llama(byte_vocabulary(), seed=8, shape=Shape(n_layer=NUM_LAYERS))
    first, *others = split(whole, tmp_path, "model", 3)
    copy = making.derive(others[0], Recipe("Q4_0", None), output=None, force=False, num_prompts=0)
    assert companions(first) == (Companion(copy),)
    total = sum(part.stat().st_size for part in (first, *others))
    assert f"{copy.stat().st_size / total:.0%} of the model's {format_bytes(total)}" in capsys.readouterr().out
    for part in (first, *others):
        with pytest.raises(DeriveError, match="is the model itself"):
            making.derive(first, Recipe("Q4_0", None), output=part, force=True)


def test_a_broken_model_is_told_as_everywhere(model: Path) -> None:
    broken = truncated(model, model.with_name("broken.gguf"), model.stat().st_size // 2)
    done = derive(broken, "--quant", "Q4_0")
    assert done.code != ExitCode.OK
    assert "cut short" in done.complaint
    assert left_in(model.parent) == ["broken.gguf", "model.gguf"]


def test_a_copy_that_is_never_right_gives_one_token_per_pass(models: Models) -> None:
    backwards = models.saying("backwards", LETTERS[::-1])
    options = {"prompts": ["b", "m"], "max_tokens": 24, "max_draft_tokens": 4}
    never = measure({"model": str(models.letters), "draft": str(backwards), **options})
    assert (never["acceptance_rate"], never["acceptance_length"]) == (0.0, 1.0)
    always = measure({"model": str(models.letters), "draft": str(models.letters), **options})
    assert (always["acceptance_rate"], always["acceptance_length"]) == (1.0, 23 / 5)


class TestInProcess:
    def test_a_full_disk_is_known_beforehand(self, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: shutil._ntuple_diskusage(1000, 999, 1))
        with pytest.raises(DeriveError, match="1 B free"):
            making.derive(model, Recipe("Q4_0", None), output=None, force=False)
        assert left_in(model.parent) == ["model.gguf"]

    def test_a_disk_that_is_full_in_the_middle_is_told(self, model: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, hard))  # to the child that writes, it is the same
        try:
            with pytest.raises(DeriveError, match=r"cannot be written to its end; .* free: make room"):
                making.derive(model, Recipe("Q4_0", None), output=None, force=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert left_in(model.parent) == ["model.gguf"]

    def test_a_writer_that_dies_leaves_nothing(self, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run = run_child

        def dying(job: str, options: dict[str, object], **rest: object) -> dict[str, object]:
            if job == "quantize":
                Path(str(options["output"])).write_bytes(b"half a model")
                raise DeriveError("llama.cpp: killed by SIGABRT: out of luck")
            return run(job, options, **rest)  # type: ignore[arg-type]

        monkeypatch.setattr(making, "run_child", dying)
        with pytest.raises(DeriveError, match="SIGABRT"):
            making.derive(model, Recipe("Q4_0", None), output=None, force=False)
        assert left_in(model.parent) == ["model.gguf"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_that_cannot_be_written_is_known_beforehand(self, model: Path) -> None:
        model.parent.chmod(0o500)
        try:
            with pytest.raises(DeriveError, match="cannot be written"):
                making.derive(model, Recipe("Q4_0", None), output=None, force=False)
        finally:
            model.parent.chmod(0o700)
