"""What a template writes for a call is what its family's parser reads back as the same call."""

from __future__ import annotations

import json

import pytest

from homespec.chat.conversation import prepare
from homespec.chat.harmony import make_parser
from homespec.chat.tool_format import Tools
from homespec.chat.tool_formats import FORMATS
from homespec.engine.chat_format import examine
from homespec.engine.template import ChatTemplate
from homespec.wire.answer import Answer

CONVERSATION = """{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- for m in messages %}<turn>{{ m.role }}
{% if m.tool_calls %}CALLS{% else %}{{ m.content }}{% endif %}<end>
{% endfor -%}"""
JSON = """{{ c.function.arguments | tojson }}"""
OBJECT = """{"name": "{{ c.function.name }}", "arguments": """ + JSON + "}"
EACH_IN_A_LIST = "{% for c in m.tool_calls %}" + OBJECT + "{% if not loop.last %}, {% endif %}{% endfor %}"
PAIRS = "{% for k, v in c.function.arguments.items() %}PAIR{% endfor %}"
TEXT = "{{ v if v is string else v | tojson }}"
DSML_PAIR = (
    """<｜DSML｜parameter name="{{ k }}" string="{{ 'true' if v is string else 'false' }}">"""
    + TEXT
    + "</｜DSML｜parameter>\n"
)
BARE = """{{ k }}:{{ '<|"|>' + v + '<|"|>' if v is string else v | tojson }}{{ "," if not loop.last }}"""
KEYWORD = """{{ k }}={{ "'" + v + "'" if v is string else v | tojson }}{{ ", " if not loop.last }}"""
CALLS = {
    "hermes": f"<tool_call>\n{OBJECT}\n</tool_call>",
    "llama3": OBJECT.replace("arguments", "parameters", 1),
    "mistral": f"[TOOL_CALLS][{EACH_IN_A_LIST}]",
    "mistral_spaced": f"[TOOL_CALLS] [{EACH_IN_A_LIST}]",
    "mistral_args": f"[TOOL_CALLS]{{{{ c.function.name }}}}[ARGS]{JSON}",
    "mistral_ids": f"[TOOL_CALLS]{{{{ c.function.name }}}}[CALL_ID]{{{{ c.id }}}}[ARGS]{JSON}",
    "phi": f"<|tool_call|>{OBJECT}<|/tool_call|>",
    "phi_list": f"<|tool_call|>[{EACH_IN_A_LIST}]<|/tool_call|>",
    "nemotron": f"<TOOLCALL>[{EACH_IN_A_LIST}]</TOOLCALL>",
    "apriel": f"<tool_calls>[{EACH_IN_A_LIST}]</tool_calls>",
    "granite": f"<|tool_call|>[{EACH_IN_A_LIST}]",
    "gigachat": f"<|function_call|>{OBJECT}",
    "apertus": f'<|tools_prefix|>[{{"{{{{ c.function.name }}}}": {JSON}}}]<|tools_suffix|>',
    "command_r": '<|START_ACTION|>[\n    {"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ c.function.name }}", '
    f'"parameters": {JSON}}}\n]<|END_ACTION|>',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}"
    f"<|tool_call_argument_begin|>{JSON}<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.function.name }}\n```json\n"
    "{{ c.function.arguments + '' }}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>"
    "{{ c.function.arguments + '' }}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="{{ c.function.name }}">\n'
    + PAIRS.replace("PAIR", DSML_PAIR)
    + "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "deepseek_v4": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{{ c.function.name }}">\n'
    + PAIRS.replace("PAIR", DSML_PAIR)
    + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "functionary": f"<function={{{{ c.function.name }}}}>{JSON}</function>",
    "qwen_xml": "<tool_call>\n<function={{ c.function.name }}>\n"
    + PAIRS.replace("PAIR", f"<parameter={{{{ k }}}}>\n{TEXT}\n</parameter>\n")
    + "</function>\n</tool_call>",
    "seed": "<seed:tool_call>\n<function={{ c.function.name }}>\n"
    + PAIRS.replace("PAIR", f"<parameter={{{{ k }}}}>{TEXT}</parameter>\n")
    + "</function>\n</seed:tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="{{ c.function.name }}">\n'
    + PAIRS.replace("PAIR", f'<parameter name="{{{{ k }}}}">{TEXT}</parameter>\n')
    + "</invoke>\n</minimax:tool_call>",
    "minicpm5": '<function name="{{ c.function.name }}">'
    + PAIRS.replace("PAIR", f'<param name="{{{{ k }}}}">{TEXT}</param>')
    + "</function>",
    "minimax_m1": f"<tool_calls>\n{OBJECT}\n</tool_calls>",
    "minimax_m3": ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="{{ c.function.name }}">'
    + PAIRS.replace("PAIR", "]<]minimax[>[<{{ k }}>{{ v }}]<]minimax[>[</{{ k }}>")
    + "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    "hy3": "<tool_calls:opensource>\n<tool_call:opensource>{{ c.function.name }}<tool_sep:opensource>\n"
    + PAIRS.replace(
        "PAIR",
        "<arg_key:opensource>{{ k }}</arg_key:opensource>\n<arg_value:opensource>TEXT</arg_value:opensource>\n",
    ).replace("TEXT", TEXT)
    + "</tool_call:opensource>\n</tool_calls:opensource>",
    "glm": "<tool_call>{{ c.function.name }}\n"
    + PAIRS.replace("PAIR", f"<arg_key>{{{{ k }}}}</arg_key>\n<arg_value>{TEXT}</arg_value>\n")
    + "</tool_call>",
    "glm_dense": "<tool_call>{{ c.function.name }}"
    + PAIRS.replace("PAIR", f"<arg_key>{{{{ k }}}}</arg_key><arg_value>{TEXT}</arg_value>")
    + "</tool_call>",
    "gemma": '<|tool_call>call:{{ c.function.name + "{" }}' + PAIRS.replace("PAIR", BARE) + "}<tool_call|>",
    "lfm2": "<|tool_call_start|>[{{ c.function.name }}(" + PAIRS.replace("PAIR", KEYWORD) + ")]<|tool_call_end|>",
    "harmony": " to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>" + JSON + "<|call|>",
}
"""One call, as the families' own templates write it."""
USER = {"role": "user", "content": "How warm is it?"}
CALL = {
    "id": "Ab3dEf6hI",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Köln, \\"am Rhein\\"", "days": 3}'},
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def template_of(call: str, *, ahead: str = "") -> ChatTemplate:
    each = call if "for c in" in call else "{% for c in m.tool_calls %}" + call + "{% endfor %}"
    return ChatTemplate(ahead + CONVERSATION.replace("CALLS", each))


def test_there_is_a_template_for_every_family() -> None:
    assert CALLS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_comes_back_from_what_the_template_writes(name: str) -> None:
    template = template_of(CALLS[name])
    found = examine(template, "test")
    assert (found.tool_format, found.tool_format_reason) == (name, "seen in a call that the template rendered")
    asked = prepare([USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}], [TOOL], found)
    text = template.render(asked.messages, tools=asked.tools, add_generation_prompt=False)
    written = text.rpartition("<turn>assistant\n")[2].removesuffix("<end>\n")
    schema = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    parser, answer = make_parser(None, Tools(FORMATS[name], {"get_weather": schema})), Answer()
    for piece in [*parser.push(written), *parser.finish()]:
        answer.add(piece)
    [call] = answer.calls
    assert answer.content == ""
    assert call.name == "get_weather"
    assert json.loads(call.arguments) == {"city": 'Köln, "am Rhein"', "days": 3}


@pytest.mark.parametrize("words", CALLS.values(), ids=CALLS)
def test_words_of_a_family_are_not_its_form(words: str) -> None:
    """A template that speaks of one form, in a comment and in its instructions, and writes another one."""
    spoken = words.replace("{{", "<").replace("}}", ">").replace("{%", "<").replace("%}", ">")
    ahead = "{# " + spoken.replace("#}", "") + " #}{{ " + json.dumps(spoken, ensure_ascii=False) + " }}"
    found = examine(
        template_of("<my:call>{{ c.function.name }}|{{ c.function.arguments }}</my:call>", ahead=ahead), "t"
    )
    assert found.tool_format is None
    assert "<my:call>probe_tool|" in found.tool_format_reason
    assert examine(template_of(CALLS["hermes"], ahead=ahead), "t").tool_format == "hermes"


def test_words_count_where_no_call_is_written() -> None:
    silent = ChatTemplate("{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}<|tool_call|>")
    found = examine(silent, "t")
    assert (found.tool_format, found.tool_format_reason) == ("granite", "named in the template, which writes no calls")
    assert not found.writes_calls
    asked = prepare([USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}], [TOOL], found)
    assert '<|tool_call|>[{"name": "get_weather", ' in silent.render(asked.messages, tools=asked.tools)
    assert examine(ChatTemplate(silent.source.replace("<|tool_call|>", "")), "t").tool_format is None


def test_the_vocabulary_counts_where_neither_calls_nor_words_tell() -> None:
    silent = ChatTemplate("{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}")
    found = examine(silent, "t", has_token=FORMATS["lfm2"].markers.__contains__)
    assert (found.tool_format, found.writes_calls) == ("lfm2", False)
    assert found.tool_format_reason.startswith("seen in the vocabulary")
    written = examine(template_of(CALLS["hermes"]), "t", has_token=FORMATS["lfm2"].markers.__contains__)
    assert written.tool_format == "hermes"


def test_a_template_that_refuses_calls_is_given_none() -> None:
    """Else the conversation would end with the first one."""
    refusing = template_of("{{ raise_exception('no calls') }}", ahead="{# <tool_call> #}")
    found = examine(refusing, "t")
    assert (found.tool_format, found.tool_format_reason) == (None, "the template refuses calls")


def test_arguments_are_given_as_the_template_writes_them() -> None:
    as_object, as_text = template_of(CALLS["hermes"]), template_of(CALLS["deepseek"])
    assert examine(as_object, "t").takes_objects
    assert not examine(as_text, "t").takes_objects
    either_way = template_of(CALLS["hermes"].replace(" | tojson", ""))
    found = examine(either_way, "t")  # an object would be written in Python's notation
    assert (found.tool_format, found.takes_objects) == ("hermes", False)
