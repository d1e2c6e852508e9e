"""How the model families write tool calls, as rows of one table.

A list of calls reads: opening, begin NAME middle ARGUMENTS end, separator, begin …, closing. The texts are those of the
families' own chat templates, to the space: a model is asked, and where needed forced, to write what it was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One family's spelling of tool calls."""

    name: str
    begin: str
    """In front of the function's name."""
    middle: str
    """Between the name and the arguments, which are a JSON object."""
    end: str
    opening: str = ""
    closing: str = ""
    separator: str = ""
    markers: tuple[str, ...] = ()
    """Parts of these texts that many vocabularies hold as one control token."""
    prefix: str = ""
    """May stand in front of the calls."""
    anywhere: bool = True
    """Calls may follow text; else they are the whole answer."""

    @property
    def start(self) -> str:
        """What every list of calls starts with, an optional prefix aside."""
        return self.opening + self.begin

    @property
    def trigger(self) -> str:
        """The shortest start that no other text has."""
        return next((marker for marker in self.markers if self.start.startswith(marker)), self.start)


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

_FORMATS = (
    HERMES,
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
    _json("<|tool_call|>", "<|/tool_call|>", name="phi", markers=("<|tool_call|>", "<|/tool_call|>")),
    _json(
        name="phi_list",
        opening="<|tool_call|>[",
        closing="]<|/tool_call|>",
        separator=", ",
        markers=("<|tool_call|>", "<|/tool_call|>"),
    ),
    _json(name="nemotron", opening="<TOOLCALL>[", closing="]</TOOLCALL>", separator=", "),
    _json(name="granite", opening="<|tool_call|>[", closing="]", separator=", ", markers=("<|tool_call|>",)),
    ToolFormat(
        "deepseek",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        "\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        opening="<｜tool▁calls▁begin｜>",
        closing="<｜tool▁calls▁end｜>",
        separator="\n",
        markers=(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ),
    ),
    ToolFormat(
        "deepseek_v31",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        opening="<｜tool▁calls▁begin｜>",
        closing="<｜tool▁calls▁end｜>",
        markers=(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ),
    ),
    ToolFormat("functionary", "<function=", ">", "</function>"),
)
FORMATS = {each.name: each for each in _FORMATS}


def detect(template: str) -> str | None:
    """Name of the format that a chat template teaches; None for none, or for one that is not in the table."""
    if "<｜tool▁calls▁begin｜>" in template:
        return "deepseek" if "```json" in template else "deepseek_v31"
    if "[TOOL_CALLS]" in template:
        if "[ARGS]" in template:
            return "mistral_args"
        return "mistral_spaced" if "[TOOL_CALLS] [" in template else "mistral"
    if "<parameter=" in template or "<arg_key>" in template:
        return None  # arguments that are not JSON: Qwen3-Coder, GLM
    if "<tool_call>" in template:
        return "hermes"
    if "<|tool_call|>" in template:
        if "<|/tool_call|>" not in template:
            return "granite"
        return "phi_list" if "<|tool_call|>[" in template else "phi"
    if "<TOOLCALL>" in template:
        return "nemotron"
    if "<function=" in template:
        return "functionary"
    if "<|python_tag|>" in template or ('"parameters": ' in template and "<|start_header_id|>" in template):
        return "llama3"
    return None
