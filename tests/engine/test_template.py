from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from homespec.engine import template as template_module
from homespec.engine.llama.gguf import open_header
from homespec.engine.template import ChatTemplate
from homespec.errors import ModelUnsupported, RequestError
from tests.kits.models import Models

HELLO = [{"role": "user", "content": "Hello"}]


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos="<s>", eos="</s>")


@pytest.mark.real
def test_the_demo_model_s_own_template(models: Models) -> None:
    with open_header(models.demo) as header:
        source = header.get("tokenizer.chat_template")
    assert isinstance(source, str)
    prompt = template(source).render(HELLO)
    assert prompt.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")


def test_markers_special_tokens_and_json_are_there() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{{ m | tojson }}{{ eos_token }}{% endfor %}{{ add_generation_prompt }}"
    )
    assert template(source).render(HELLO) == '<s>{"role": "user", "content": "Hello"}</s>True'


def test_the_template_s_own_refusal_reaches_the_client() -> None:
    with pytest.raises(RequestError, match="no system role here") as caught:
        template("{{ raise_exception('no system role here') }}").render(HELLO)
    assert caught.value.info.code == "template_error"
    assert caught.value.info.status == 400


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.getpid() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'a' * 999999999999 }}",
        "{{ 999999999999 * [1] }}",
        "{{ range(999999999999) }}",
        "{{ messages[0].content + 1 }}",
        "{{ missing.name }}",
    ],
)
def test_a_hostile_or_broken_template_is_a_refusal(source: str) -> None:
    with pytest.raises(RequestError) as caught:
        template(source).render(HELLO)
    assert caught.value.info.status == 400


def test_a_template_that_runs_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "TIME_LIMIT_S", 0.2)
    source = "{% for a in range(9999) %}" * 3 + "{% endfor %}" * 3
    with pytest.raises(RequestError) as caught:
        template(source).render(HELLO)
    assert caught.value.info.code == "template_timeout"
    assert template("{{ 1 }}").render(HELLO) == "1"


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "OUTPUT_LIMIT_CHARS", 1000)
    with pytest.raises(RequestError) as caught:
        template("{% for a in range(900) %}xx{% endfor %}").render(HELLO)
    assert caught.value.info.code == "template_output_limit"


def test_a_template_that_does_not_compile_names_the_fault() -> None:
    with pytest.raises(ModelUnsupported, match="chat template does not compile"):
        template("{% for %}")


@pytest.mark.parametrize(
    "source",
    ["{% if tools is defined %}{{ tools[0] }}{% endif %}.", "{% if tools is not none %}{{ tools[0] }}{% endif %}."],
)
def test_no_tools_are_said_the_way_the_template_asks(source: str) -> None:
    assert template(source).render(HELLO) == "."
    assert template(source).render(HELLO, tools=[{"a": 1}]) == "{'a': 1}."


def test_variables_reach_the_template() -> None:
    assert template("{{ mood }}").render(HELLO, variables={"mood": "good"}) == "good"
    assert template("{{ mood }}{{ messages }}").variables == {"mood", "messages"}


def test_marks_for_training_are_nothing_here() -> None:
    assert template("a{% generation %}b{% endgeneration %}c").render(HELLO) == "abc"


def test_a_template_may_be_rendered_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "TIME_LIMIT_S", 0.2)
    source = "{% for a in range(9999) %}" * 3 + "{% endfor %}" * 3
    with ThreadPoolExecutor(1) as pool, pytest.raises(RequestError) as caught:
        pool.submit(template(source).render, HELLO).result()
    assert caught.value.info.code == "template_timeout"
