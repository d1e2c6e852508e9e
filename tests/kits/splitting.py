"""A model in several files, as `llama-gguf-split` writes them: metadata in the first, tensors spread over all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf

from tests.kits.gguf_kit import TinyModel


def split(model: TinyModel, folder: Path, name: str, count: int) -> tuple[Path, ...]:
    """The files, the first one first."""
    names = list(model.tensors)
    paths = []
    for index in range(count):
        path = folder / f"{name}-{index + 1:05}-of-{count:05}.gguf"
        part = replace(model, tensors={key: model.tensors[key] for key in names[index::count]})
        paths.append(_Part(part, index, count, len(names)).write(path))
    return tuple(paths)


class _Part:
    def __init__(self, model: TinyModel, index: int, count: int, num_tensors: int) -> None:
        self._model = model
        self._numbers = {"split.no": index, "split.count": count}
        self._num_tensors = num_tensors

    def write(self, path: Path) -> Path:
        writer: Any = gguf.GGUFWriter(path, self._model.architecture)
        for key, value in self._numbers.items():
            writer.add_uint16(key, value)
        writer.add_int32("split.tensors.count", self._num_tensors)
        if self._numbers["split.no"] == 0:
            self._model._write_sizes(writer)
            self._model.vocabulary.write(writer)
        for name, tensor in self._model.tensors.items():
            self._model._write_tensor(writer, name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path
