"""A configuration file with every key, its meaning and its default: all of it commented out."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

from homespec.config import Settings
from homespec.config.report import toml

_WIDTH = 100
SAMPLES: dict[str, Any] = {
    "model": "/srv/models/Qwen3-4B-Q4_K_M.gguf",
    "model_id": "qwen3",
    "models": {"qwen3-8b": "/srv/models/Qwen3-8B-Q4_K_M.gguf"},
    "models_dir": "/srv/models",
    "past_outputs_file": "/var/lib/homespec/past-answers",
    "host": "192.168.1.20",
    "api_key_file": "/etc/homespec/keys",
    "allowed_hosts": ("box.lan", "nas.lan"),
    "cors_origins": ("http://box.lan:3000",),
}
"""What to write for keys whose default says nothing about their form."""
_NOT_IN_A_FILE = ("api_key",)
_HEAD = """\
# Every setting of homespec with its default; 'homespec config example' prints this file.
# Uncomment what you change. 'homespec config show --origin' says what is in effect and where it came from.
# The same keys work in the environment: HOMESPEC_CTX=16384. Lists are comma separated there:
# HOMESPEC_ALLOWED_HOSTS=box.lan,nas.lan. An unknown key is an error that names the nearest known one.
"""


@cache
def meanings() -> dict[str, str]:
    """What each setting means, by key: the text under it in the source. A key without one is left out."""
    [cls] = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body
    assert isinstance(cls, ast.ClassDef)
    found = {}
    for statement, following in zip(cls.body, cls.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                found[statement.target.id] = " ".join(text.split()).replace("None:", "not set:")
    return found


def example() -> str:
    """The text of the file."""
    entries = [_entry(key) for key in Settings.model_fields if key not in _NOT_IN_A_FILE]
    return "\n".join([_HEAD, *entries])


def _entry(key: str) -> str:
    meaning = meanings().get(key, "")
    comment = textwrap.fill(meaning, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    default = Settings.model_fields[key].default
    value = SAMPLES.get(key, default)
    line = f"# {key} is not set" if value is None else f"#{key} = {toml(value)}"
    return f"{comment}\n{line}\n"
