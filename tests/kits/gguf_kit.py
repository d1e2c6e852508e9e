"""GGUF files made for tests: a vocabulary, weights of a chosen kind, and ways to break a file.

Everything is small enough to load in milliseconds. Weights come in two kinds:

- random: attention matters, so a wrong KV cache shows in the output; two seeds hardly ever agree on a token.
- table: the logits after each token are given by a table, so the distribution is known. With a Markov table the next
  token is a known function of the last one, and a drafter can be made right everywhere, or wrong on a chosen share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
NextToken = NDArray[np.intp]
"""Entry t: the token that follows token t."""

NUM_BYTES = 256
BOS, EOS, MASK = 256, 257, 258
NUM_TOKENS = 288
NORMAL, CONTROL, UNUSED = 1, 3, 5

CHAT_TEMPLATE = (
    "{% for message in messages %}<|x0|>{{ message.role }}:{{ message.content }}<|x1|>{% endfor %}"
    "{% if add_generation_prompt %}<|x0|>assistant:{% endif %}"
)


@dataclass(frozen=True)
class Vocabulary:
    """A byte-level BPE tokenizer as a GGUF header carries it."""

    texts: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    bos: int = BOS
    eos: int = EOS
    adds_bos: bool = False
    adds_eos: bool = False
    pre: str = "default"
    template: str | None = CHAT_TEMPLATE

    def with_text(self, token_id: int, text: str) -> Vocabulary:
        return replace(self, texts=(*self.texts[:token_id], text, *self.texts[token_id + 1 :]))

    def with_type(self, token_id: int, kind: int) -> Vocabulary:
        return replace(self, types=(*self.types[:token_id], kind, *self.types[token_id + 1 :]))

    def with_swapped(self, left: int, right: int) -> Vocabulary:
        """Two ids change their texts."""
        return self.with_text(left, self.texts[right]).with_text(right, self.texts[left])

    def padded(self, count: int) -> Vocabulary:
        """`count` unused tokens more at the end."""
        first = len(self.texts)
        return replace(
            self,
            texts=(*self.texts, *(f"<|pad{first + index}|>" for index in range(count))),
            types=(*self.types, *[UNUSED] * count),
        )

    def write(self, writer: Any) -> None:
        writer.add_vocab_size(len(self.texts))
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(list(self.texts))
        writer.add_token_types(list(self.types))
        writer.add_token_merges(list(self.merges))
        writer.add_bos_token_id(self.bos)
        writer.add_eos_token_id(self.eos)
        writer.add_add_bos_token(self.adds_bos)
        writer.add_add_eos_token(self.adds_eos)
        if self.template is not None:
            writer.add_chat_template(self.template)


def byte_vocabulary() -> Vocabulary:
    """Ids 0 to 255 are the bytes themselves; control tokens follow."""
    symbols = _byte_symbols()
    special = ["<|bos|>", "<|eos|>", "<|mask|>", *(f"<|x{index}|>" for index in range(NUM_TOKENS - MASK - 1))]
    return Vocabulary(
        texts=(*symbols, *special),
        types=(*[NORMAL] * NUM_BYTES, *[CONTROL] * len(special)),
        # llama.cpp refuses a vocabulary without merges; this one joins two bytes that no text holds in a row.
        merges=(f"{symbols[0]} {symbols[1]}",),
    )


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of an existing file. Takes seconds on a large one."""
    fields = gguf.GGUFReader(path).fields

    def value(key: str, default: Any = None) -> Any:
        return fields[key].contents() if key in fields else default

    return Vocabulary(
        texts=tuple(value("tokenizer.ggml.tokens")),
        types=tuple(value("tokenizer.ggml.token_type")),
        merges=tuple(value("tokenizer.ggml.merges")),
        bos=value("tokenizer.ggml.bos_token_id"),
        eos=value("tokenizer.ggml.eos_token_id"),
        adds_bos=value("tokenizer.ggml.add_bos_token", False),
        adds_eos=value("tokenizer.ggml.add_eos_token", False),
        pre=value("tokenizer.ggml.pre"),
        template=value("tokenizer.chat_template"),
    )


@dataclass(frozen=True)
class Shape:
    """Sizes of a llama model."""

    n_embd: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 128
    n_ctx_train: int = 1024

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head


@dataclass(frozen=True)
class TinyModel:
    """A model that can be written to a file. `replace` a field to get a broken relative of it."""

    vocabulary: Vocabulary
    shape: Shape
    tensors: Mapping[str, Floats]
    architecture: str = "llama"
    quantized: bool = True
    """Matrices in Q8_0, which multiplies the same whatever the number of rows; else in F16, where rows matter."""
    metadata: Mapping[str, str | bool | int | float | Sequence[int]] = field(default_factory=dict)
    """More keys, in full."""
    in_f32: Sequence[str] = ()
    """Ends of the names of matrices that must not be quantised."""

    def write(self, path: Path) -> Path:
        writer = gguf.GGUFWriter(path, self.architecture)
        self._write_sizes(writer)
        self.vocabulary.write(writer)
        for key, value in self.metadata.items():
            _add(writer, key, value)
        for name, tensor in self.tensors.items():
            self._write_tensor(writer, name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def _write_sizes(self, writer: Any) -> None:
        shape = self.shape
        writer.add_context_length(shape.n_ctx_train)
        writer.add_embedding_length(shape.n_embd)
        writer.add_block_count(shape.n_layer)
        writer.add_feed_forward_length(shape.n_ff)
        writer.add_head_count(shape.n_head)
        writer.add_head_count_kv(shape.n_head_kv)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(shape.head_dim)
        writer.add_rope_freq_base(10000.0)

    def _write_tensor(self, writer: Any, name: str, tensor: Floats) -> None:
        if tensor.dtype == np.int64:
            writer.add_tensor(name, tensor, raw_dtype=gguf.GGMLQuantizationType.I64)
        elif tensor.ndim == 1 or "conv1d" in name or name.endswith(tuple(self.in_f32)):  # convolutions are always F32
            writer.add_tensor(name, tensor)
        elif self.quantized:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor.astype(np.float16))


def _add(writer: Any, key: str, value: str | bool | int | float | Sequence[int]) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_array(key, list(value))


def random_llama(vocabulary: Vocabulary, seed: int, shape: Shape | None = None) -> TinyModel:
    """Weights that no training has touched, with attention strong enough to tell any two prefixes apart."""
    shape = shape or Shape()
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Floats:
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(2 / np.sqrt(columns))

    num_tokens = len(vocabulary.texts)
    tensors = {name: matrix(num_tokens, shape.n_embd) for name in ("token_embd.weight", "output.weight")}
    for layer in range(shape.n_layer):
        tensors |= _layer(layer, shape, matrix)
    tensors["output_norm.weight"] = np.ones(shape.n_embd, np.float32)
    return TinyModel(vocabulary, shape, tensors)


def table_llama(logits: Floats, vocabulary: Vocabulary | None = None, n_ctx_train: int = 1024) -> TinyModel:
    """A model whose logits after token t are `logits[t]`, whatever came before, to the precision of F16.

    Token t embeds as the unit vector t, the layers add nothing, and the output matrix is the table itself. A row of
    logits then has one term only, so it has the same bits in every batch.
    """
    shape = Shape(n_embd=NUM_TOKENS, n_layer=1, n_head=9, n_head_kv=3, n_ff=32, n_ctx_train=n_ctx_train)
    tensors = {
        "token_embd.weight": np.eye(NUM_TOKENS, dtype=np.float32),
        # RMS normalisation makes the unit vector sqrt(n_embd) long.
        "output.weight": logits.T.astype(np.float32) / np.float32(np.sqrt(NUM_TOKENS)),
        "output_norm.weight": np.ones(NUM_TOKENS, np.float32),
        **_layer(0, shape, lambda rows, columns: np.zeros((rows, columns), np.float32)),
    }
    return TinyModel(vocabulary or byte_vocabulary(), shape, tensors, quantized=False)


def markov_table(next_token: NextToken, *, margin: float = 12.0, seed: int = 1) -> Floats:
    """Logits of `margin` for `next_token[t]` after t, and of at most 2 for every other token."""
    noise = np.random.default_rng(seed).standard_normal((NUM_TOKENS, NUM_TOKENS), dtype=np.float32)
    noise = np.clip(noise, -2, 2)
    noise[np.arange(NUM_TOKENS), next_token] = margin
    return noise


def markov_llama(next_token: NextToken, *, seed: int = 1) -> TinyModel:
    """A model over the byte vocabulary that says `next_token[t]` after t."""
    return table_llama(markov_table(next_token, seed=seed))


def permutation(seed: int = 0) -> NextToken:
    """One cycle through all bytes in a random order; control tokens follow themselves."""
    order = np.random.default_rng(seed).permutation(NUM_BYTES)
    next_token = np.arange(NUM_TOKENS)
    next_token[order] = np.roll(order, -1)
    return next_token


def cycle(token_ids: Sequence[int]) -> NextToken:
    """The given tokens in turn, for ever; every other token leads to the first. No token may occur twice."""
    assert len(set(token_ids)) == len(token_ids)
    next_token = np.full(NUM_TOKENS, token_ids[0])
    next_token[list(token_ids)] = np.roll(np.asarray(token_ids), -1)
    return next_token


def wrong_on(next_token: NextToken, fraction: float, seed: int = 5) -> NextToken:
    """The same but for a share of the bytes, after which it is one step too far ahead."""
    wrong = np.random.default_rng(seed).choice(NUM_BYTES, int(NUM_BYTES * fraction), replace=False)
    changed = next_token.copy()
    changed[wrong] = next_token[next_token[wrong]]
    return changed


def follow(next_token: NextToken, start: int, count: int) -> list[int]:
    """The `count` tokens after `start`."""
    tokens = []
    for _ in range(count):
        start = int(next_token[start])
        tokens.append(start)
    return tokens


def truncated(source: Path, destination: Path, size: int) -> Path:
    """The first `size` bytes of a file. What lies behind the header is a hole: it is never read."""
    with source.open("rb") as file:
        destination.write_bytes(file.read(min(size, 4 * 1024 * 1024)))
    with destination.open("ab") as file:
        file.truncate(size)
    return destination


def lfs_pointer(path: Path) -> Path:
    """What a Git checkout without LFS leaves in the place of a model."""
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 98362432\n")
    return path


def web_page(path: Path) -> Path:
    """What a download link behind a login gives."""
    path.write_text("<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in</body></html>\n")
    return path


def _layer(layer: int, shape: Shape, matrix: Any) -> dict[str, Floats]:
    kv_size = shape.n_head_kv * shape.head_dim
    sizes = {
        "attn_q": (shape.n_embd, shape.n_embd),
        "attn_k": (kv_size, shape.n_embd),
        "attn_v": (kv_size, shape.n_embd),
        "attn_output": (shape.n_embd, shape.n_embd),
        "ffn_gate": (shape.n_ff, shape.n_embd),
        "ffn_up": (shape.n_ff, shape.n_embd),
        "ffn_down": (shape.n_embd, shape.n_ff),
    }
    tensors = {f"blk.{layer}.{name}.weight": matrix(*size) for name, size in sizes.items()}
    norms = {f"blk.{layer}.{name}.weight": np.ones(shape.n_embd, np.float32) for name in ("attn_norm", "ffn_norm")}
    return tensors | norms


def _byte_symbols() -> list[str]:
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(NUM_BYTES) if byte not in printable)
    symbols: Iterable[tuple[int, str]] = (
        *((byte, chr(byte)) for byte in printable),
        *((byte, chr(NUM_BYTES + index)) for index, byte in enumerate(others)),
    )
    return [symbol for _, symbol in sorted(symbols)]
