"""Body of POST /v1/chat/completions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from homespec.chat.conversation import prepare
from homespec.chat.tool_format import Tools
from homespec.chat.tool_formats import FORMATS, HARMONY_REASONING
from homespec.errors import RequestError
from homespec.frames import ChatPrompt, Constraint, Generate, ToolUse
from homespec.status import ChatFormat
from homespec.wire.generation import MAX_TOP_LOGPROBS, Generation, TokenLimit
from homespec.wire.messages import Message, plain_message
from homespec.wire.tools import AskedChoice, Choice, Tool, tool_use

UNKNOWN_TEMPLATE = ChatFormat(name="custom", source="unknown")
"""Of a model without a template; the engine refuses its chats with the reason."""
_MARK = re.compile(r"<[^<>\s]+>")
"""A control token inside a longer marker."""
_CHANNELS_ARE_SPLIT = "reasoning_format has no effect: this model's answers are always split by their channels"
_OWN_VARIABLES = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """How one conversation is asked, and how its answer is to be read."""

    prompt: ChatPrompt
    constraint: Constraint | None
    tool_use: ToolUse | None
    reasoning: tuple[str, str] | None
    """Markers of a thinking block that is told apart from the answer."""
    notices: tuple[str, ...]
    """What was done differently from what was asked; sent as a header."""

    @property
    def tools(self) -> Tools | None:
        """What the answer may call."""
        use = self.tool_use
        if use is None:
            return None
        return Tools(FORMATS[use.tool_format], {each.name: json.loads(each.schema) for each in use.functions})


class ChatRequest(Generation):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: TokenLimit = None
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    tools: list[Tool] = Field(default_factory=list)
    tool_choice: AskedChoice = None
    parallel_tool_calls: bool = True
    functions: list[Any] = Field(default_factory=list)
    function_call: Any = None
    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    reasoning_format: Literal["auto", "none", "deepseek"] = "auto"
    """none: the thinking stays in the content."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)

    def plan(self, template: ChatFormat = UNKNOWN_TEMPLATE) -> ChatPlan:
        """Raises RequestError for a field that cannot be honoured, with its name."""
        self._check()
        constraint, use = self._calls(template)
        tools = [tool.described() for tool in self.tools] if use else []
        messages = [plain_message(message, index) for index, message in enumerate(self.messages)]
        conversation = prepare(messages, tools, template)
        at_once = constraint is not None and self._answers_at_once(template, conversation.prefill)
        variables, ignored = self._variables(template, thinks=not (at_once or conversation.prefill))
        reasoning = template.reasoning or ()
        marks = [mark for text in reasoning for mark in _MARK.findall(text)]
        markers = dict.fromkeys((*(FORMATS[use.tool_format].markers if use else ()), *reasoning, *marks))
        prompt = ChatPrompt(
            conversation.messages,
            tools=conversation.tools,
            variables=variables,
            prefill=conversation.prefill,
            markers=tuple(markers),
            reasoning=template.reasoning,
            answers_at_once=at_once,
        )
        has_channels, keeps_thinking = template.reasoning == HARMONY_REASONING, self.reasoning_format == "none"
        if has_channels and keeps_thinking:
            ignored = (*ignored, _CHANNELS_ARE_SPLIT)
        return ChatPlan(
            prompt,
            constraint,
            use,
            reasoning=None if keeps_thinking and not has_channels else template.reasoning,
            notices=(*conversation.notices, *ignored),
        )

    def frames(self, request_id: str, *, partition: str, plan: ChatPlan | None = None) -> list[Generate]:
        """What the engine is asked. Raises RequestError for a field that cannot be honoured."""
        plan = plan or self.plan()
        return self.generate_frames(
            request_id,
            plan.prompt,
            partition=partition,
            constraint=plan.constraint,
            tool_use=plan.tool_use,
            max_tokens=self._token_limit(),
            num_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )

    def _check(self) -> None:
        for name in ("functions", "function_call"):
            if getattr(self, name):
                raise RequestError(f"{name} is not supported; use tools and tool_choice", param=name)
        if self.top_logprobs and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs to be true", param="top_logprobs")
        if taken := _OWN_VARIABLES & self.chat_template_kwargs.keys():
            raise RequestError(
                f"chat_template_kwargs must not set {', '.join(sorted(taken))}", param="chat_template_kwargs"
            )

    def _calls(self, template: ChatFormat) -> tuple[Constraint | None, ToolUse | None]:
        """The answer's constraint, or the calls that it may hold."""
        constraint = self.constraint()
        choice = Choice(self.tool_choice, self.tools)
        if choice.mode == "none":
            return constraint, None
        if constraint is not None and constraint.kind != "json_schema":
            raise RequestError(
                f"{constraint.param} cannot be combined with tools; leave one out, or set tool_choice to 'none'",
                param=constraint.param,
            )
        use = tool_use(
            self.tools,
            choice,
            template,
            parallel=self.parallel_tool_calls,
            answer_schema=constraint.text if constraint else None,
        )
        return None, use

    def _answers_at_once(self, template: ChatFormat, prefill: str) -> bool:
        """The answer is all that is written, so a constraint begins with it."""
        keeps_thinking = self.reasoning_format == "none" and template.reasoning != HARMONY_REASONING
        is_off = self.enable_thinking is False or self.reasoning_effort == "none"
        return bool(prefill) or keeps_thinking or is_off

    def _variables(self, template: ChatFormat, *, thinks: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Variables for the template, and notices of those that it does not read."""
        variables: dict[str, Any] = {}
        if not thinks and "enable_thinking" in template.variables:
            variables["enable_thinking"] = False
        if self.reasoning_effort is not None:
            variables["reasoning_effort"] = self.reasoning_effort
            if "enable_thinking" in template.variables:
                variables["enable_thinking"] = self.reasoning_effort != "none"
        if self.enable_thinking is not None:
            variables["enable_thinking"] = self.enable_thinking
        variables |= self.chat_template_kwargs
        asked = {name for name in ("reasoning_effort", "enable_thinking") if getattr(self, name) is not None}
        asked |= self.chat_template_kwargs.keys()
        read = set(template.variables) | ({"reasoning_effort"} if "enable_thinking" in template.variables else set())
        ignored = sorted(asked - read)
        return variables, tuple(f"{name} is not read by the chat template" for name in ignored)

    def _token_limit(self) -> int | None:
        """max_completion_tokens and max_tokens mean the same; the smaller counts."""
        limits = [limit for limit in (self.max_tokens, self.max_completion_tokens) if limit is not None]
        return min(limits) if limits else None
