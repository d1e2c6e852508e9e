"""Prompts from a parquet file, as data sets are published. pyarrow reads it where it is installed; nothing needs it."""

from __future__ import annotations

import io
import shlex

from homespec.bench.prompt_rows import SHAPE, Row, row_of
from homespec.errors import ConfigError

MAGIC = b"PAR1"
COLUMNS = ("question_id", "category", "turns")


def conversion(path: str) -> str:
    """A command that makes JSON lines of it, for a shell where Python has pyarrow."""
    program = (
        "import json, sys, pyarrow.parquet as p; "
        "[print(json.dumps(row, default=str)) for row in p.read_table(sys.argv[1]).to_pylist()]"
    )
    return f'python3 -c "{program}" {shlex.quote(path)} > {shlex.quote(path.removesuffix(".parquet") + ".jsonl")}'


def is_table(data: bytes, origin: str) -> bool:
    """Whether it is parquet. Raises ConfigError for what only has the name of it."""
    if data.startswith(MAGIC):
        return True
    if origin.endswith(".parquet"):
        raise ConfigError(f"{origin} begins with {data[:4]!r}, not {MAGIC!r}: it is no parquet file; fetch it again")
    return False


def table_rows(data: bytes, origin: str) -> list[Row]:
    """Raises ConfigError without pyarrow, for a broken file, and for a bad row."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            f"{origin} is parquet, and pyarrow is not installed; 'pip install pyarrow' beside homespec, "
            f"or convert it where Python has it: {conversion(origin)}"
        ) from error
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(data))
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        rows = [] if missing else file.read(columns=list(COLUMNS)).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{origin} cannot be read as parquet: {reason}; fetch it again") from error
    if missing:
        has = ", ".join(file.schema_arrow.names)
        raise ConfigError(f"{origin} has no column {', '.join(missing)}, only {has}; each prompt is {SHAPE}")
    return [row_of(row, f"row {number}", origin) for number, row in enumerate(rows, start=1)]
