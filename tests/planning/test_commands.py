"""The two commands as people and scripts see them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from homespec.errors import ExitCode
from homespec.profiles.profile import named
from homespec.store.companions import SOURCE_KEY, copy_path
from homespec.units import MIB
from tests.daemons import FinishedCommand, run_command
from tests.kits import embedding_kit
from tests.kits.footprint_kit import eagle_head
from tests.kits.gguf_kit import byte_vocabulary, lfs_pointer, random_llama
from tests.kits.models import Models

pytestmark = [pytest.mark.process, pytest.mark.real]


def report(finished: FinishedCommand) -> Any:
    assert finished.stderr == ""
    return json.loads(finished.stdout)


def test_a_plan_is_data_on_stdout(models: Models, tmp_path: Path) -> None:
    finished = run_command(tmp_path, "plan", "--demo", "--ctx", "2048", "--draft", str(models.random_drafter), "--json")
    plan = report(finished)
    assert finished.code == ExitCode.OK
    assert plan["fits"]
    assert plan["target"]["n_ctx"] == 2048
    assert plan["target"]["measured"]
    [pool] = plan["pools"]
    assert pool["name"] == "CPU"
    assert pool["target"]["weights_bytes"] > 90_000_000
    spent = sum(pool["target"].values()) + sum(pool["drafter"].values())
    assert pool["headroom_after_bytes"] == pool["headroom_bytes"] - spent
    assert [verdict["admitted"] for verdict in plan["drafters"]] == [True, True]
    assert plan["guidelines"]["heads_per_kv_head"] == 3
    assert plan["guidelines"]["knee_rows"] > 0


def test_a_plan_is_a_table_for_people(models: Models, tmp_path: Path) -> None:
    finished = run_command(tmp_path, "plan", "--demo", "--draft", str(models.random))
    assert finished.code == ExitCode.OK
    for text in (
        "fits: ",
        "8192 tokens of context (trained for 8192), KV",
        "target weights",
        "target kv",
        "headroom after",
        "free drafters",
    ):
        assert text in finished.stdout
    assert "vocabulary sizes differ by 48864" in finished.stdout
    assert "G = 3 query heads per KV head" in finished.stdout


def test_layers_for_a_gpu_that_is_not_there_are_refused_unless_the_cpu_may_do(tmp_path: Path) -> None:
    """As when it is served."""
    refused = run_command(tmp_path, "plan", "--demo", "--gpu-layers", "5")
    assert (refused.code, refused.stdout) == (ExitCode.ENGINE_FAILED, "")
    assert "gpu_layers = 5 asks for a GPU, and llama.cpp finds none; 'homespec doctor'" in refused.stderr
    allowed = {"HOMESPEC_GPU_MISSING": "cpu"}
    assert run_command(tmp_path, "plan", "--demo", "--gpu-layers", "5", environment=allowed).code == ExitCode.OK


def test_a_model_of_the_configured_table_is_planned_with_its_own_values(models: Models, tmp_path: Path) -> None:
    tables = {"one": str(models.letters), "two": {"path": str(models.random), "ctx": 512}}
    environment = {"HOMESPEC_MODELS": json.dumps(tables)}
    assert report(run_command(tmp_path, "plan", "--json", environment=environment))["model"] == str(models.letters)
    plan = report(run_command(tmp_path, "plan", "two", "--json", environment=environment))
    assert (plan["model"], plan["target"]["n_ctx"]) == (str(models.random), 512)


def test_a_context_beyond_what_the_model_was_trained_for_is_said(tmp_path: Path) -> None:
    finished = run_command(tmp_path, "plan", "--demo", "--ctx", "10240")
    assert finished.code == ExitCode.OK
    assert "context: 10240 tokens as asked, and the model was trained for 8192: it may" in finished.stdout


def test_a_profile_is_planned_as_it_would_be_served(tmp_path: Path) -> None:
    plan = report(run_command(tmp_path, "plan", "--demo", "--profile", "cpu-8", "--json"))
    values = named("cpu-8").values()
    assert (plan["target"]["n_ctx"], plan["target"]["slots"]) == (values["ctx"], values["slots"])
    assert plan["pools"][0]["reserve_bytes"] == values["reserve_mib"] * MIB


def test_an_embedding_model_drafts_nothing(models: Models, tmp_path: Path) -> None:
    finished = run_command(tmp_path, "plan", str(models.bert))
    assert finished.code == ExitCode.OK
    assert finished.stdout.splitlines()[-1] == "the model makes embeddings: nothing is drafted"
    assert "free drafters" not in finished.stdout


def test_a_plan_proposes_the_copy_that_would_pay_and_then_takes_it(models: Models, tmp_path: Path) -> None:
    model = replace(random_llama(byte_vocabulary(), seed=5), quantized=False).write(tmp_path / "model.gguf")
    environment = {"HOMESPEC_FIT": "auto", "HOMESPEC_CONTROLLER": "auto"}

    def planned(*more: str) -> FinishedCommand:
        return run_command(tmp_path, "plan", str(model), "--ctx", "512", *more, environment=environment)

    assert f"homespec derive {model} --quant Q4_0" in planned().stdout
    assert report(planned("--draft", "off", "--json"))["proposal"] is None
    copy = Path(shutil.copy(models.other_random, copy_path(model, "Q4_0")))
    plan = report(planned("--json"))
    assert plan["proposal"] is None
    assert [verdict["path"] for verdict in plan["drafters"]] == [str(copy), None]
    assert plan["drafters"][0]["admitted"]


def test_a_plan_leaves_out_a_copy_of_another_file_unless_it_is_named(models: Models, tmp_path: Path) -> None:
    model = Path(shutil.copy(models.random, tmp_path / "model.gguf"))
    tiny = replace(random_llama(byte_vocabulary(), seed=2), metadata={SOURCE_KEY: "of another"})
    copy = tiny.write(copy_path(model, "Q4_0"))
    environment = {"HOMESPEC_FIT": "auto", "HOMESPEC_CONTROLLER": "auto"}
    told = run_command(tmp_path, "plan", str(model), "--json", environment=environment)
    found, free = report(told)["drafters"]
    assert (found["path"], found["admitted"], free["admitted"]) == (str(copy), False, True)
    assert "was made of another file" in found["reason"]
    named = run_command(tmp_path, "plan", str(model), "--draft", str(copy), "--json", environment=environment)
    assert report(named)["drafters"][0]["admitted"]


def test_a_target_that_does_not_fit_has_a_code_of_its_own(models: Models, tmp_path: Path) -> None:
    finished = run_command(tmp_path, "plan", "--demo", "--ctx", "2000000000", "--json")
    plan = report(finished)
    assert finished.code == ExitCode.DOES_NOT_FIT
    assert not plan["fits"]
    assert plan["drafters"] == []
    assert "--ctx" in plan["nearest"]["flags"]
    assert plan["nearest"]["total_bytes"] < plan["target"]["total_bytes"]


@pytest.mark.parametrize(
    ("arguments", "code", "fragments"),
    [
        (["--draft", "off", "--draft", "x.gguf"], ExitCode.CONFIG, ["--draft off", "alone"]),
        (["--draft", "/nope.gguf"], ExitCode.MODEL, ["/nope.gguf", "does not exist"]),
        (["--ctx", "12"], ExitCode.CONFIG, ["--ctx", "256"]),
        (["--kv-type", "q9"], ExitCode.CONFIG, ["--kv-type", "'q9'", "q8_0"]),
    ],
)
def test_contradictions_and_bad_values_are_one_line(
    tmp_path: Path, arguments: list[str], code: ExitCode, fragments: list[str]
) -> None:
    finished = run_command(tmp_path, "plan", "--demo", *arguments)
    assert finished.code == code
    assert all(fragment in finished.complaint for fragment in fragments)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("RESERVE_MIB", "reserve_mib: a reserve of 976.6 GiB leaves nothing of CPU"),
        ("LOW_MARK_MIB", "low_mark_mib: with a mark of 976.6 GiB on CPU"),
    ],
)
def test_a_reserve_or_a_mark_larger_than_the_box_is_one_line(tmp_path: Path, key: str, words: str) -> None:
    finished = run_command(tmp_path, "plan", "--demo", environment={f"HOMESPEC_{key}": "1000000"})
    assert finished.code == ExitCode.CONFIG
    assert words in finished.complaint


def test_one_good_and_many_broken_pairs(models: Models, tmp_path: Path) -> None:
    """A verdict and the reason per candidate."""
    vocabulary = models.demo_vocabulary
    drafts = {
        "good": models.random_drafter,
        "text": models.demo_relative("pair-text", vocabulary.with_text(20000, "zzz")),
        "bos": models.demo_relative("pair-bos", replace(vocabulary, adds_bos=True)),
        "family": models.random,
        "embeds": models.write("pair-embeds", embedding_kit.causal(vocabulary, seed=3)),
        "pointer": lfs_pointer(tmp_path / "pointer.gguf"),
        "gone": tmp_path / "gone.gguf",
        "head": eagle_head(tmp_path / "head.gguf", target_width=512, layers=(2, 15, 99)),
    }
    finished = run_command(tmp_path, "pair", str(models.demo), *map(str, drafts.values()), "--json")
    verdicts = dict(zip(drafts, report(finished)["drafters"], strict=True))
    assert finished.code == ExitCode.OK
    assert [name for name, verdict in verdicts.items() if verdict["usable"]] == ["good"]
    expected = {
        "text": ["token 20000 differs: target 'ĠBrow', drafter 'zzz'"],
        "bos": ["BOS policy differs"],
        "family": ["vocabulary sizes differ by 48864", "token 0 differs"],
        "embeds": ["made to embed texts"],
        "pointer": ["Git LFS pointer"],
        "gone": ["does not exist"],
        "head": [
            "target layers [2, 15, 99] are not within the target's 0 to 30",
            "target_hidden_size 512 of the head is not the target's hidden width 576",
            "vocabulary sizes differ: target 49152, head 288",
        ],
    }
    for name, reasons in expected.items():
        for reason in reasons:
            assert any(reason in failure for failure in verdicts[name]["failures"]), name
    assert verdicts["head"]["kind"] == "eagle3"


def test_a_pair_without_a_usable_drafter_fails_for_scripts(models: Models, tmp_path: Path) -> None:
    finished = run_command(tmp_path, "pair", str(models.demo), str(models.random))
    assert finished.code == ExitCode.FAILURE
    assert "vocabulary sizes differ" in finished.stdout
    assert finished.stderr == ""


def test_a_pair_is_found_by_its_names_in_the_configured_store(models: Models, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    for name, model in (("big", models.random), ("small", models.other_random)):
        (tmp_path / "store" / f"{name}.gguf").symlink_to(model)
    finished = run_command(
        tmp_path, "pair", "big", "small", "--json", environment={"HOMESPEC_MODELS_DIR": str(tmp_path / "store")}
    )
    assert finished.code == ExitCode.OK
    assert [drafter["usable"] for drafter in report(finished)["drafters"]] == [True]
