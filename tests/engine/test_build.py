"""What the engine is put together from; drafters that cannot be used say why and cost nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from homespec.engine.build import build_drafter
from homespec.engine.drafters.model import ModelDrafter
from homespec.engine.llama.batch import Batch
from homespec.errors import DrafterError, ModelUnsupported, RequestError
from homespec.frames import Loading
from tests.kits import embedding_kit, memory_kit
from tests.kits.engines import SCRIPTED, Driver, ask, chat, running
from tests.kits.gguf_kit import (
    BOS,
    CONTROL,
    Vocabulary,
    cycle,
    follow,
    lfs_pointer,
    markov_table,
    random_llama,
    table_llama,
    truncated,
)
from tests.kits.models import LETTERS, Models

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def demo(models: Models) -> Iterator[Driver]:
    with running(models.demo, draft=SCRIPTED, n_ctx=512) as driver:
        yield driver


def refusal(driver: Driver, draft: Path) -> str:
    with pytest.raises(DrafterError) as caught:
        build_drafter(msgspec.structs.replace(driver.settings, draft_path=str(draft)), driver.context)
    return str(caught.value)


Change = Callable[[Vocabulary], Vocabulary]


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("text", lambda v: v.with_text(20000, "zzz"), "token 20000 differs: target 'ĠBrow', drafter 'zzz'"),
        ("high-swap", lambda v: v.with_swapped(48_000, 48_001), "token 48000 differs"),
        ("low-swap", lambda v: v.with_swapped(3, 4), "token 3 differs: target '<repo_name>', drafter '<reponame>'"),
        ("type", lambda v: v.with_type(100, CONTROL), "token 100 't' differs in type"),
        ("pad", lambda v: v.padded(200), "vocabulary sizes differ by 200: target 49152, drafter 49352"),
        ("bos", lambda v: replace(v, adds_bos=True), "BOS policy differs: the target does not add it"),
        ("eos", lambda v: replace(v, adds_eos=True), "EOS policy differs: the target does not add it"),
    ],
)
def test_a_drafter_whose_vocabulary_differs_is_refused_with_the_ids_and_both_texts(
    demo: Driver, models: Models, name: str, change: Change, reason: str
) -> None:
    path = models.demo_relative(f"demo-{name}", change(models.demo_vocabulary))
    assert reason in refusal(demo, path)


def test_a_drafter_of_another_family_is_refused(demo: Driver, models: Models) -> None:
    assert "vocabulary sizes differ by 48864: target 49152, drafter 288" in refusal(demo, models.random)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("recurrent", "'mamba' cannot take tokens back"), ("causal-embed", "embed texts"), ("bert-open", "embed texts")],
)
def test_a_model_that_could_draft_for_nobody_is_refused(models: Models, name: str, reason: str) -> None:
    vocabulary = models.byte_vocabulary
    bert = embedding_kit.bert(vocabulary, 1)
    made = {
        "recurrent": memory_kit.recurrent(vocabulary, 1),
        "causal-embed": embedding_kit.causal(vocabulary, 1),
        "bert-open": replace(bert, vocabulary=replace(bert.vocabulary, adds_bos=False, adds_eos=False)),
    }
    with running(models.random, draft=SCRIPTED) as driver:
        assert reason in refusal(driver, models.write(name, made[name]))


def test_a_few_padding_tokens_more_are_no_reason_to_refuse(demo: Driver, models: Models) -> None:
    path = models.demo_relative("demo-padded", models.demo_vocabulary.padded(100))
    build_drafter(msgspec.structs.replace(demo.settings, draft_path=str(path)), demo.context).shutdown()


def test_a_drafter_that_is_not_a_model_is_refused_by_kind(demo: Driver, models: Models, tmp_path: Path) -> None:
    assert "No such file" in refusal(demo, tmp_path / "gone.gguf")
    assert "Is a directory" in refusal(demo, tmp_path)
    assert "invalid magic characters" in refusal(demo, lfs_pointer(tmp_path / "pointer.gguf"))
    assert "cut short" in refusal(demo, truncated(models.demo, tmp_path / "cut.gguf", 50_000_000))
    unknown = replace(random_llama(models.demo_vocabulary, 1), architecture="quux", tensors={})
    assert "'quux'" in refusal(demo, unknown.write(tmp_path / "quux.gguf"))


def test_the_target_answers_the_same_after_a_refused_drafter(demo: Driver, models: Models, tmp_path: Path) -> None:
    [before] = demo.run(ask(chat("Say hello."), max_tokens=12, partition="before"))
    reason = refusal(demo, truncated(models.demo, tmp_path / "cut.gguf", 50_000_000))
    demo.roster.failed("draft", reason)
    [after] = demo.run(ask(chat("Say hello."), mode="draft", max_tokens=12, partition="after"))
    assert after.token_ids == before.token_ids
    assert after.speculation.state == "off"
    assert "cut short" in after.speculation.reason
    assert demo.drafter_status().reason == reason
    assert sum(reason in event for event in demo.events()) == 1


def test_status_names_what_is_loaded(models: Models) -> None:
    with running(models.random, slots=3) as driver:
        status = driver.engine.status
        assert (status.architecture, status.n_vocab, status.n_layer, status.n_ctx_train) == ("llama", 288, 2, 1024)
        assert (status.n_ctx, status.slots, status.kv_type) == (512, 3, "bf16")
        assert status.chat_template == "the model file"
        assert status.devices[-1] == "CPU"
        loading = [frame.progress for frame in driver.frames if isinstance(frame, Loading)]
        assert loading == sorted(loading)
        assert loading[-1] == 1.0


def test_the_context_is_the_trained_one_unless_it_is_asked_for(models: Models) -> None:
    with running(models.random, n_ctx=None) as driver:
        assert driver.engine.status.n_ctx == 1024


@pytest.mark.parametrize("token", [-1, 288, 10**9])
def test_a_bias_on_a_token_that_does_not_exist_is_refused(models: Models, token: int) -> None:
    with running(models.random) as driver, pytest.raises(RequestError, match="vocabulary has 288") as caught:
        driver.submit(ask("a", sampling={"logit_bias": {token: 1.0}}))
    assert caught.value.info.param == "logit_bias"


@pytest.mark.parametrize("token", [-1, 288, 2**40])
def test_a_prompt_token_that_does_not_exist_is_refused(models: Models, token: int) -> None:
    with running(models.random) as driver, pytest.raises(RequestError, match=f"token id {token} is outside"):
        driver.submit(ask([1, token]))


def test_an_empty_prompt_is_refused_or_begins_with_the_first_token(models: Models) -> None:
    with running(models.random) as driver:
        with pytest.raises(RequestError, match="prompt is empty"):
            driver.submit(ask([]))
        assert driver.submit(ask("")).token_ids == [256]


def test_a_base_model_without_a_template_refuses_chats_only(models: Models) -> None:
    vocabulary = replace(models.byte_vocabulary, template=None)
    with running(models.write("base", random_llama(vocabulary, 1))) as driver:
        assert driver.engine.status.chat_template is None
        with pytest.raises(RequestError, match="no chat template") as caught:
            driver.submit(ask(chat("hello")))
        assert caught.value.info.code == "no_chat_template"
        [answer] = driver.run(ask("hello"))
        assert answer.token_ids


def test_a_template_that_does_not_compile_stops_the_load(models: Models) -> None:
    vocabulary = replace(models.byte_vocabulary, template="{% for %}")
    path = models.write("bad-template", random_llama(vocabulary, 1))
    with pytest.raises(ModelUnsupported, match="does not compile"), running(path):
        pass


BOS_TEMPLATE = "{{ bos_token }}{{ messages[0].content }}"


@pytest.mark.parametrize(
    ("template", "adds_bos", "expected"),
    [
        (BOS_TEMPLATE, True, [256, ord("a")]),
        (BOS_TEMPLATE, False, [256, ord("a")]),
        ("{{ messages[0].content }}", True, [256, ord("a")]),
        ("{{ messages[0].content }}", False, [ord("a")]),
        ("{{ bos_token }}{{ bos_token }}{{ messages[0].content }}", True, [256, 256, ord("a")]),
    ],
)
def test_a_prompt_begins_with_the_first_token_once(
    models: Models, template: str, adds_bos: bool, expected: list[int]
) -> None:
    vocabulary = replace(models.byte_vocabulary, template=template, adds_bos=adds_bos)
    name = f"bos-{adds_bos}-{abs(hash(template))}"
    with running(models.write(name, random_llama(vocabulary, 1))) as driver:
        assert driver.engine.prompts.read(ask(chat("a"))).token_ids == expected


def test_a_role_that_the_template_refuses_reaches_the_client_with_its_reason(models: Models) -> None:
    vocabulary = replace(
        models.byte_vocabulary,
        template="{% if messages[0].role == 'system' %}{{ raise_exception('no system turn, please') }}{% endif %}a",
    )
    with running(models.write("no-system", random_llama(vocabulary, 1))) as driver:
        with pytest.raises(RequestError, match="no system turn, please"):
            driver.submit(ask([{"role": "system", "content": "be nice"}]))
        assert driver.engine.prompts.read(ask(chat("b"))).token_ids == [ord("a")]


def test_an_echoed_prompt_is_part_of_the_text_and_not_of_the_tokens(models: Models) -> None:
    with running(models.letters) as driver:
        [answer] = driver.run(ask("abc", max_tokens=3, echo=True, stop=("b",)))
    assert answer.text == "abcdef"
    assert answer.finished.num_output_tokens == 3


def test_an_echo_is_the_text_that_was_sent_and_not_what_the_tokenizer_put_in_front(models: Models) -> None:
    letters = table_llama(markov_table(cycle(LETTERS)), replace(models.byte_vocabulary, adds_bos=True))
    with running(models.write("letters-with-bos", letters)) as driver:
        text, tokens = (driver.run(ask(each, max_tokens=3, echo=True))[0] for each in ("abc", [BOS, *b"abc"]))
    assert text.finished.num_prompt_tokens == 4
    assert text.text == "abcdef"
    assert tokens.text == "<|bos|>abcdef"


def test_a_drafter_never_sees_more_than_it_was_trained_for(models: Models) -> None:
    """llama.cpp allocates 256 cells for it all the same; of a longer text it sees a window."""
    table = markov_table(models.chain, seed=9)
    short = models.write("very-short-drafter", table_llama(table, n_ctx_train=100))
    prompt = follow(models.chain, 0, 200)
    with running(models.markov, draft=short, n_ctx=512) as driver:
        drafter = driver.roster.choose("draft").drafter
        assert isinstance(drafter, ModelDrafter)
        longest = 0
        decode = drafter._context.decode

        def watched(batch: Batch) -> None:
            nonlocal longest
            decode(batch)
            longest = max(longest, *(drafter._context.kv_length(slot.id) for slot in driver.scheduler._slots.slots))

        drafter._context.decode = watched  # type: ignore[method-assign]
        [late] = driver.run(ask(prompt, mode="draft", max_tokens=20))
        [across] = driver.run(ask(prompt[:90], mode="draft", max_tokens=40))
    assert late.speculation.accepted > 10
    assert 60 < longest <= 100
    assert late.token_ids == follow(models.chain, prompt[-1], 20)
    assert across.token_ids == follow(models.chain, prompt[89], 40)
