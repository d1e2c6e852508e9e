"""Settings: defaults, then the file, then HOMESPEC_* in the environment, then flags. Each default is written once."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from homespec.errors import ConfigError

ENV_PREFIX = "HOMESPEC_"
DEFAULT_PORT = 8642
DEFAULT_WEB_PORT = DEFAULT_PORT + 1
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
# Read by other parts of homespec, not settings of the daemon.
_OTHER_VARIABLES = frozenset({"HOMESPEC_CONFIG", "HOMESPEC_URL"})

KvType = Literal["auto", "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


def _split(value: Any) -> Any:
    """In the environment a list is one text with commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """Everything that `homespec serve` can be told."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True, validate_default=True)

    model: str | None = None
    """Path of the target's GGUF file."""
    model_id: str | None = None
    """Name that clients use; None: the file's stem."""
    demo: bool = False
    """Serve the small model of the `demo` extra."""
    draft: str = "auto"
    """Path of a draft GGUF; `auto`: free drafters only; `off`: no drafting."""
    max_draft_tokens: int = Field(default=4, ge=0, le=16)
    """D, the most tokens drafted per round."""
    acceptance: Literal["coupled", "rejection"] = "coupled"
    """coupled: same seed, same text, whatever is drafted; rejection: more is accepted above temperature 0.5."""

    ctx: Annotated[int, Field(ge=256, le=2**31 - 1)] | Literal["auto"] = "auto"
    """Tokens of context, shared by all slots. auto: what the model was trained for, at most 8192."""
    slots: int = Field(default=4, ge=1, le=64)
    """Requests that run at the same time."""
    cached_prefixes: int = Field(default=8, ge=0, le=128)
    """Finished prompts kept for reuse beside the running ones."""
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | Literal["auto"] = "auto"
    """Layers on the GPU; auto: all when there is one."""
    kv_type: KvType = "auto"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    mmap: bool = True
    exactness: Literal["auto", "strict", "fast"] = "auto"
    """auto: measure whether drafting can change a bit, and say so; strict: take slower settings if needed, or refuse to
    start; fast: do not measure."""

    host: str | None = None
    """Address to listen on; None: both loopbacks, ::1 and 127.0.0.1."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    insecure: bool = False
    """Allow an address beyond loopback without an API key."""
    api_key: SecretStr | None = None
    """Set it in the environment; it must not appear on a command line."""
    api_key_file: Path | None = None
    """File with one key per line; `#` starts a comment."""
    allowed_hosts: Names = ()
    """Host header names accepted beside loopback and the bound address, while no key is set."""
    cors_origins: Names = ()
    """Origins of web pages that may call; none by default."""

    max_queue: int = Field(default=32, ge=0, le=10_000)
    """Requests that wait for a slot before new ones get 503."""
    max_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    stall_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds without progress of a busy engine before it is killed and started again."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls)

    @property
    def loopback_only(self) -> bool:
        return self.host in (None, "localhost", "127.0.0.1", "::1")

    def api_keys(self) -> frozenset[str]:
        """All keys of the environment and the key file; empty means none is asked for."""
        keys = [self.api_key.get_secret_value()] if self.api_key else []
        if self.api_key_file:
            try:
                lines = self.api_key_file.read_text().splitlines()
            except OSError as error:
                raise ConfigError(f"api_key_file {self.api_key_file} cannot be read: {error.strerror}") from error
            keys += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        return frozenset(keys)


class _FileSource(PydanticBaseSettingsSource):
    """The values of the configuration file that `load` has read."""

    values: Mapping[str, Any] = {}

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(self.values)


def default_config_path() -> Path:
    return platformdirs.user_config_path("homespec") / "config.toml"


def load(flags: Mapping[str, Any], config_file: Path | None = None) -> Settings:
    """Merge all layers. `flags` holds only what was given on the command line.

    Raises ConfigError in one line: the key, the value, what is allowed, and where it was set.
    """
    values, origin = _read_file(config_file)
    _check_keys(values, origin)
    _check_environment()
    _FileSource.values = values
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        raise ConfigError(_first_fault(error, flags, values, origin)) from error
    finally:
        _FileSource.values = {}
    _check_exposure(settings)
    return settings


def _read_file(config_file: Path | None) -> tuple[dict[str, Any], str]:
    from_environment = os.environ.get("HOMESPEC_CONFIG")
    named = config_file or (Path(from_environment) if from_environment else None)
    path = named or default_config_path()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")), str(path)
    except FileNotFoundError as error:
        if named is None:
            return {}, str(path)
        raise ConfigError(f"config file {path} does not exist; check --config or HOMESPEC_CONFIG") from error
    except OSError as error:
        raise ConfigError(f"config file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path} is not valid TOML: {error}") from error


def _check_keys(values: Mapping[str, Any], origin: str) -> None:
    for key in values:
        if key not in Settings.model_fields:
            raise ConfigError(f"unknown key {key!r} in {origin}{_nearest(key, Settings.model_fields)}")
        if key == "api_key":
            raise ConfigError(f"api_key in {origin}: put it in HOMESPEC_API_KEY or in a file named by api_key_file")


def _check_environment() -> None:
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | _OTHER_VARIABLES
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known:
            raise ConfigError(f"unknown environment variable {name}{_nearest(name.upper(), known)}")


def _nearest(name: str, known: Any) -> str:
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "; see docs/configuration.md for the known ones"


def _first_fault(error: ValidationError, flags: Mapping[str, Any], values: Mapping[str, Any], origin: str) -> str:
    faults = error.errors(include_url=False)
    fault = faults[0]
    key = str(fault["loc"][0]) if fault["loc"] else "settings"
    variable = ENV_PREFIX + key.upper()
    if key in flags:
        where = f"--{key.replace('_', '-')}"
    else:
        is_set = variable in {name.upper() for name in os.environ}
        where = f"{key} in {origin}" if key in values and not is_set else variable
    # A field of several types has one fault for each of them.
    messages = [each["msg"] for each in faults if each["loc"][:1] == fault["loc"][:1]]
    return f"{where} = {fault['input']!r}: {', or '.join(text[0].lower() + text[1:] for text in messages)}"


def _check_exposure(settings: Settings) -> None:
    keys = settings.api_keys()
    if settings.api_key_file and not keys:
        raise ConfigError(f"api_key_file {settings.api_key_file} holds no key; write one per line, or leave it out")
    if not settings.loopback_only and not settings.insecure and not keys:
        raise ConfigError(
            f"host {settings.host!r} is reachable from other machines and no API key is set; set HOMESPEC_API_KEY or "
            f"api_key_file, or pass --insecure to serve everyone who can connect"
        )
