"""The table of the model families that are known to write tool calls."""

from __future__ import annotations

from homespec.chat.arguments import Braces, Keywords, Tags
from homespec.chat.tool_format import ToolFormat


def _json(begin: str = "", end: str = "", arguments: str = "arguments", **others: object) -> ToolFormat:
    """The families that write `{"name": NAME, "arguments": ARGUMENTS}`."""
    return ToolFormat(
        begin=begin + '{"name": "',
        middle=f'", "{arguments}": ',
        end="}" + end,
        **others,  # type: ignore[arg-type]
    )


HERMES = _json(
    "<tool_call>\n", "\n</tool_call>", name="hermes", separator="\n", markers=("<tool_call>", "</tool_call>")
)
"""Hermes, Qwen 2.5 and 3, SmolLM3; also what homespec describes to models whose template knows no tools."""

HARMONY_REASONING = ("<|channel|>analysis<|message|>", "<|end|>")
"""What marks thinking in gpt-oss's answers, which are a row of messages: see homespec.chat.harmony."""
HARMONY = ToolFormat(
    "harmony",
    "<|channel|>commentary to=functions.",
    " <|constrain|>json<|message|>",
    "<|call|>",
    markers=("<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"),
)

_PHI = ("<|tool_call|>", "<|/tool_call|>")
_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
_KIMI = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_argument_begin|>",
)
_MINIMAX = "]<]minimax[>["
_DSML = "｜DSML｜"
_HY = (
    *("<tool_calls:opensource>", "</tool_calls:opensource>", "<tool_call:opensource>", "</tool_call:opensource>"),
    *("<tool_sep:opensource>", "<arg_key:opensource>", "</arg_key:opensource>"),
    *("<arg_value:opensource>", "</arg_value:opensource>"),
)
_GLM = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def _dsml(name: str, calls: str) -> ToolFormat:
    """DeepSeek from 3.2 on, whose versions call the list of calls differently."""
    return ToolFormat(
        name,
        f'<{_DSML}invoke name="',
        '">\n',
        f"</{_DSML}invoke>\n",
        opening=f"<{_DSML}{calls}>\n",
        closing=f"</{_DSML}{calls}>",
        markers=(_DSML,),
        arguments=Tags(
            f'<{_DSML}parameter name="', '" string="true">', f"</{_DSML}parameter>\n", json_value='" string="false">'
        ),
    )


_FORMATS = (
    HERMES,
    HARMONY,
    _json(
        name="llama3",
        arguments="parameters",
        separator="; ",
        prefix="<|python_tag|>",
        anywhere=False,
        markers=("<|python_tag|>",),
    ),
    _json(name="mistral", opening="[TOOL_CALLS][", closing="]", separator=", ", markers=("[TOOL_CALLS]",)),
    _json(name="mistral_spaced", opening="[TOOL_CALLS] [", closing="]", separator=", ", markers=("[TOOL_CALLS]",)),
    ToolFormat("mistral_args", "[TOOL_CALLS]", "[ARGS]", "", markers=("[TOOL_CALLS]", "[ARGS]")),
    ToolFormat(
        "mistral_ids",
        "[TOOL_CALLS]",
        "[ARGS]",
        "",
        id_mark="[CALL_ID]",
        markers=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
    ),
    _json(*_PHI, name="phi", markers=_PHI),
    _json(
        name="phi_list",
        opening="<|tool_call|>[",
        closing="]<|/tool_call|>",
        separator=", ",
        markers=_PHI,
    ),
    _json(name="nemotron", opening="<TOOLCALL>[", closing="]</TOOLCALL>", separator=", "),
    _json(name="apriel", opening="<tool_calls>[", closing="]</tool_calls>", separator=", "),
    _json(name="granite", opening="<|tool_call|>[", closing="]", separator=", ", markers=("<|tool_call|>",)),
    _json("<|function_call|>", name="gigachat", separator="\n", markers=("<|function_call|>",)),
    ToolFormat(
        "apertus",
        '{"',
        '": ',
        "}",
        opening="<|tools_prefix|>[",
        closing="]<|tools_suffix|>",
        separator=", ",
        markers=("<|tools_prefix|>", "<|tools_suffix|>"),
    ),
    ToolFormat(
        "command_r",
        '    {"tool_call_id": "',
        '", "parameters": ',
        "}",
        opening="<|START_ACTION|>[\n",
        closing="\n]<|END_ACTION|>",
        separator=",\n",
        id_end='", "tool_name": "',
        markers=("<|START_ACTION|>", "<|END_ACTION|>"),
    ),
    ToolFormat(
        "kimi_k2",
        "<|tool_call_begin|>functions.",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        opening="<|tool_calls_section_begin|>",
        closing="<|tool_calls_section_end|>",
        id_mark=":",
        markers=_KIMI,
    ),
    ToolFormat(
        "deepseek",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        "\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        opening="<｜tool▁calls▁begin｜>",
        closing="<｜tool▁calls▁end｜>",
        separator="\n",
        markers=_DEEPSEEK,
    ),
    ToolFormat(
        "deepseek_v31",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        opening="<｜tool▁calls▁begin｜>",
        closing="<｜tool▁calls▁end｜>",
        markers=_DEEPSEEK,
    ),
    _dsml("deepseek_v32", "function_calls"),
    _dsml("deepseek_v4", "tool_calls"),
    ToolFormat("functionary", "<function=", ">", "</function>"),
    ToolFormat(
        "minicpm5",
        '<function name="',
        '">',
        "</function>",
        separator="\n",
        markers=('<function name="', "<function", "</function>", "<param", "</param>"),
        arguments=Tags('<param name="', '">', "</param>", wrap=("<![CDATA[", "]]>")),
    ),
    ToolFormat(
        "qwen_xml",
        "<tool_call>\n<function=",
        ">\n",
        "</function>\n</tool_call>",
        separator="\n",
        markers=("<tool_call>", "</tool_call>"),
        arguments=Tags("<parameter=", ">\n", "\n</parameter>\n"),
    ),
    ToolFormat(
        "seed",
        "<seed:tool_call>\n<function=",
        ">\n",
        "</function>\n</seed:tool_call>",
        separator="\n",
        markers=("<seed:tool_call>", "</seed:tool_call>"),
        arguments=Tags("<parameter=", ">", "</parameter>\n"),
    ),
    ToolFormat(
        "minimax",
        '<invoke name="',
        '">\n',
        "</invoke>",
        opening="<minimax:tool_call>\n",
        closing="\n</minimax:tool_call>",
        separator="\n",
        markers=("<minimax:tool_call>", "</minimax:tool_call>"),
        arguments=Tags('<parameter name="', '">', "</parameter>\n"),
    ),
    _json(
        name="minimax_m1",
        opening="<tool_calls>\n",
        closing="\n</tool_calls>",
        separator="\n",
        markers=("<tool_calls>", "</tool_calls>"),
    ),
    ToolFormat(
        "minimax_m3",
        f'{_MINIMAX}<invoke name="',
        '">',
        f"{_MINIMAX}</invoke>\n",
        opening=f"{_MINIMAX}<tool_call>\n",
        closing=f"{_MINIMAX}</tool_call>",
        markers=(_MINIMAX, "<tool_call>", "</tool_call>"),
        arguments=Tags(f"{_MINIMAX}<", ">", f"{_MINIMAX}</{{name}}>", nested=_MINIMAX),
    ),
    ToolFormat(
        "hy3",
        "<tool_call:opensource>",
        "<tool_sep:opensource>\n",
        "</tool_call:opensource>",
        opening="<tool_calls:opensource>\n",
        closing="\n</tool_calls:opensource>",
        separator="\n",
        markers=_HY,
        arguments=Tags(
            "<arg_key:opensource>", "</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n"
        ),
    ),
    ToolFormat(
        "glm",
        "<tool_call>",
        "\n",
        "</tool_call>",
        separator="\n",
        markers=_GLM,
        arguments=Tags("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"),
    ),
    ToolFormat(
        "glm_dense",
        "<tool_call>",
        "",
        "</tool_call>",
        markers=_GLM,
        arguments=Tags("<arg_key>", "</arg_key><arg_value>", "</arg_value>"),
    ),
    ToolFormat(
        "lfm2",
        "",
        "(",
        ")",
        opening="<|tool_call_start|>[",
        closing="]<|tool_call_end|>",
        separator=", ",
        markers=("<|tool_call_start|>", "<|tool_call_end|>"),
        arguments=Keywords(),
    ),
    ToolFormat(
        "gemma",
        "<|tool_call>call:",
        "{",
        "<tool_call|>",
        markers=("<|tool_call>", "<tool_call|>", '<|"|>'),
        arguments=Braces('<|"|>'),
    ),
)
FORMATS = {each.name: each for each in _FORMATS}
