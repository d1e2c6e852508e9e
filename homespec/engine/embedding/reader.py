"""From the texts of a request to token ids, by the model's rules."""

from __future__ import annotations

from homespec.engine.llama.vocab import Vocab
from homespec.errors import RequestError
from homespec.frames import Embed

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Well within what one frame carries."""
_FLOAT_BYTES = 4


class EmbeddingReader:
    """Tokenises and bounds what is to be embedded."""

    def __init__(self, vocab: Vocab, *, max_tokens: int, width: int) -> None:
        """max_tokens: of one text. width: of a vector."""
        self._vocab = vocab
        self.max_tokens = max_tokens
        self.width = width

    def read(self, request: Embed) -> tuple[list[list[int]], tuple[str, ...]]:
        """Token ids of each text, and notices of those that were cut. Raises RequestError, naming the field."""
        if request.dimensions is not None and request.dimensions > self.width:
            raise RequestError(
                f"dimensions = {request.dimensions}; this model's vectors have {self.width}", param="dimensions"
            )
        most = MAX_ANSWER_BYTES // (_FLOAT_BYTES * self.width)
        if len(request.inputs) > most:
            raise RequestError(f"input holds {len(request.inputs)} texts; send at most {most} at a time", param="input")
        texts = [self._tokens(text, index) for index, text in enumerate(request.inputs)]
        cut = [index for index, token_ids in enumerate(texts) if len(token_ids) > self.max_tokens]
        if cut and not request.truncate:
            raise RequestError(
                f"input[{cut[0]}] has {len(texts[cut[0]])} tokens and the model takes {self.max_tokens} at a time; "
                "split the text, or start homespec with a larger --ctx if the model was trained for one",
                param="input",
                code="context_length_exceeded",
            )
        for index in cut:
            texts[index] = self._shortened(texts[index])
        return texts, tuple(f"input[{index}] was cut to {self.max_tokens} tokens" for index in cut)

    def _tokens(self, text: str | list[int], index: int) -> list[int]:
        param = f"input[{index}]"
        token_ids = self._vocab.tokenize(text, add_special=True, parse_special=False) if isinstance(text, str) else text
        if not token_ids:
            raise RequestError(f"{param} is empty; send at least one token", param="input")
        for token_id in token_ids:
            if not 0 <= token_id < self._vocab.n_vocab:
                raise RequestError(
                    f"{param} holds token {token_id}, outside the vocabulary of {self._vocab.n_vocab}", param="input"
                )
        return token_ids

    def _shortened(self, token_ids: list[int]) -> list[int]:
        """Without what is too much, but with the token that closes every text of this model."""
        kept = token_ids[: self.max_tokens]
        if token_ids[-1] in self._vocab.closing_tokens:
            kept[-1] = token_ids[-1]
        return kept


def not_loaded_to_embed(model_id: str) -> RequestError:
    """What a request is refused with where nothing embeds."""
    return RequestError(
        f"embeddings are not served: {model_id} is loaded to generate text; serve an embedding model, or start "
        "homespec with embeddings = 'mean', 'cls' or 'last' to pool the states of this one",
        code="embeddings_not_supported",
        param="model",
    )
