"""Request bodies beside chat."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import Field

from homespec.errors import RequestError
from homespec.frames import Generate, TextPrompt, TokenPrompt
from homespec.wire.base import Wire, looks_like
from homespec.wire.generation import MAX_TOP_LOGPROBS, DrafterMode, Generation, TokenIds, TokenLimit

T = TypeVar("T")

_One = Annotated[list[T], Field(min_length=1, max_length=1)]

DEFAULT_COMPLETION_TOKENS = 16
"""What the OpenAI API documents for /v1/completions without max_tokens."""


class CompletionRequest(Generation):
    """Body of POST /v1/completions."""

    prompt: Annotated[Any, looks_like(str | TokenIds | _One[str] | _One[TokenIds])] = ""
    """Text or token ids, or a list that holds one of these."""
    max_tokens: TokenLimit = DEFAULT_COMPLETION_TOKENS
    echo: bool = False
    suffix: str | None = None
    """Text behind the gap that the answer fills."""
    logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    best_of: int | None = None

    def frames(self, request_id: str, *, partition: str) -> list[Generate]:
        """What the engine is asked. Raises RequestError for a field that cannot be honoured."""
        if self.suffix and self.echo:
            raise RequestError("echo with suffix is not supported: leave one of them out", param="echo")
        if self.best_of not in (None, self.n):
            raise RequestError(f"best_of = {self.best_of} is not supported; use n", param="best_of")
        if self.echo and self.logprobs is not None:
            raise RequestError("echo with logprobs is not supported: leave one of them out", param="echo")
        return self.generate_frames(
            request_id,
            self._prompt(),
            partition=partition,
            constraint=self.constraint(),
            max_tokens=self.max_tokens,
            num_logprobs=self.logprobs,
            echo=self.echo,
        )

    def _prompt(self) -> TextPrompt | TokenPrompt:
        """Raises RequestError for a suffix behind a prompt that is no text."""
        prompt = self._single_prompt()
        if not self.suffix:
            return prompt
        if not isinstance(prompt, TextPrompt):
            raise RequestError("suffix needs a prompt that is text, not token ids", param="suffix")
        return TextPrompt(prompt.text, self.suffix)

    def _single_prompt(self) -> TextPrompt | TokenPrompt:
        """Raises RequestError unless there is exactly one prompt."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            if len(prompt) != 1:
                raise RequestError(f"prompt holds {len(prompt)} prompts; send one per request", param="prompt")
            prompt = prompt[0]
        if isinstance(prompt, str):
            return TextPrompt(prompt)
        if isinstance(prompt, list) and all(type(token_id) is int for token_id in prompt):
            return TokenPrompt(prompt)
        raise RequestError("prompt is neither text nor a list of token ids", param="prompt")


class DrafterRequest(Wire):
    """Body of POST /admin/drafter."""

    mode: DrafterMode | None = None
    """None: as it is."""
    reload: bool = False
    """Unload the draft model and load it again."""

    def check(self) -> None:
        """Raises RequestError when it asks for nothing."""
        if self.mode is None and not self.reload:
            raise RequestError(
                "mode is missing; send auto, off or the name of a drafter, or reload: true", param="mode"
            )


class TokenizeRequest(Wire):
    content: str
    parse_special: bool = False


class DetokenizeRequest(Wire):
    tokens: list[int]
