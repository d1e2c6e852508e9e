"""From a request's prompt to token ids, by the target's rules, once."""

from __future__ import annotations

from homespec.engine.llama.vocab import Vocab
from homespec.engine.template import ChatTemplate
from homespec.errors import RequestError
from homespec.frames import ChatPrompt, Generate, TextPrompt, TokenPrompt


class PromptReader:
    """Renders and tokenises prompts. Used by the engine's main thread only (the template needs its timer)."""

    def __init__(self, vocab: Vocab, template: ChatTemplate | None, *, n_ctx: int) -> None:
        self._vocab = vocab
        self._template = template
        self._n_ctx = n_ctx

    def read(self, request: Generate) -> list[int]:
        """Token ids of the prompt. Raises RequestError for a prompt that cannot be used or can never fit."""
        token_ids = self._token_ids(request.prompt)
        if not token_ids:
            raise RequestError("the prompt is empty; send at least one token", param=_field(request))
        if len(token_ids) >= self._n_ctx:
            raise RequestError(
                f"the prompt has {len(token_ids)} tokens and the context holds {self._n_ctx}, one of them for the "
                f"answer; shorten the prompt or start homespec with a larger --ctx",
                param=_field(request),
                code="context_length_exceeded",
            )
        return token_ids

    def _token_ids(self, prompt: ChatPrompt | TextPrompt | TokenPrompt) -> list[int]:
        match prompt:
            case ChatPrompt(messages):
                return self._chat(messages)
            case TextPrompt(text):
                return self._tokenize(text)
            case TokenPrompt(token_ids):
                for token_id in token_ids:
                    if not 0 <= token_id < self._vocab.n_vocab:
                        raise RequestError(
                            f"token id {token_id} is outside the vocabulary of {self._vocab.n_vocab}", param="prompt"
                        )
                return token_ids

    def _chat(self, messages: list[dict[str, object]]) -> list[int]:
        if self._template is None:
            raise RequestError(
                "this model has no chat template (a base model); use /v1/completions, or serve an instruct model",
                code="no_chat_template",
                param="messages",
            )
        text = self._template.render(messages)
        # The template may write BOS itself: then the tokenizer must not add a second one.
        written = bool(self._template.bos) and text.startswith(self._template.bos)
        return self._tokenize(text, add_special=not written)

    def _tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        token_ids = self._vocab.tokenize(text, add_special=add_special, parse_special=True)
        if not token_ids and self._vocab.bos is not None:
            return [self._vocab.bos]
        return token_ids


def _field(request: Generate) -> str:
    return "messages" if isinstance(request.prompt, ChatPrompt) else "prompt"
