"""Settings: defaults, profile, file, HOMESPEC_* in the environment, flags. Each default is written once."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from homespec.errors import ConfigError
from homespec.profiles.box import detect
from homespec.profiles.profile import AUTO, OFF, Profile, named, pick
from homespec.stats import MAX_DRAFT_TOKENS

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

    profile: str = "off"
    """Starting values for a class of box: a name that `homespec profiles` lists, `auto`: by detection, `off`: none."""
    model: str | None = None
    """Path of the target's GGUF file, or a name that `homespec models` lists."""
    model_id: str | None = None
    """Name that clients use; None: the file's stem."""
    demo: bool = False
    """Serve the small model of the `demo` extra."""
    models_dir: Path | None = None
    """Folder for pulled models; None: `homespec/models` in the platform's data folder."""
    draft: str = "auto"
    """Path or name of a draft GGUF; `auto`: free drafters only; `off`: no drafting."""
    draft_window: Annotated[int, Field(ge=256, le=2**31 - 1)] | Literal["full"] = 1024
    """Tokens of a sequence that the draft model sees: the first few and the last ones. full: all of them."""
    past_outputs_mib: int = Field(default=0, ge=0, le=2**20)
    """MiB of past answers that the `suffix` drafter may repeat, apart for each API key; 0: none."""
    past_outputs_file: Path | None = None
    """Where past answers are kept over a restart; None: nowhere."""
    controller: Literal["auto", "off"] = "auto"
    """auto: drafter and D are decided round by round, from measured costs; off: D is always `max_draft_tokens`."""
    max_draft_tokens: Annotated[int, Field(ge=0, le=MAX_DRAFT_TOKENS)] | Literal["auto"] = "auto"
    """D, the most tokens drafted per round; auto: 16, or 4 with `controller = "off"`."""
    acceptance: Literal["coupled", "rejection"] = "coupled"
    """coupled: same seed, same text, whatever is drafted; rejection: more is accepted above temperature 0.5."""

    ctx: Annotated[int, Field(ge=256, le=2**31 - 1)] | Literal["auto"] = "auto"
    """Tokens of context, shared by all slots. auto: what the model was trained for, at most 8192, less where that does
    not fit."""
    chat_template: str = "auto"
    """auto: the model file's own; `chatml`: a built-in one, which also makes a base model chat; else a Jinja file."""
    slots: int = Field(default=4, ge=1, le=64)
    """Requests that run at the same time."""
    cached_prefixes: int = Field(default=8, ge=0, le=128)
    """Finished prompts kept for reuse beside the running ones."""
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | Literal["auto"] = "auto"
    """Layers on the GPU; auto: as many as fit when there is one."""
    gpu_wait_s: float = Field(default=60.0, ge=0)
    """Seconds to look again for a GPU that `gpu_layers` asks for: drivers come up late at boot."""
    gpu_missing: Literal["fail", "cpu"] = "fail"
    """After that; fail: end with an error; cpu: serve from the CPU, and say so in /health."""
    kv_type: KvType = "auto"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    fit: Literal["auto", "off"] = "auto"
    """auto: measure what the models take before they are loaded, refuse what does not fit; off: load and see."""
    mmap: bool = True
    exactness: Literal["auto", "strict", "fast"] = "auto"
    """auto: measure whether drafting can change a bit, and say so; strict: take slower settings if needed, or refuse to
    start; fast: do not measure."""

    reserve_mib: Annotated[int, Field(ge=0, le=2**20)] | Literal["auto"] = "auto"
    """MiB of each pool of memory (the host's, each GPU's) that stay free for everyone else. auto: a twentieth of the
    pool, at least 256, at most 1024, never more than an eighth."""
    low_mark_mib: Annotated[int, Field(ge=0, le=2**20)] | Literal["auto"] = "auto"
    """With less than this free, the draft model is unloaded. auto: half the reserve."""
    high_mark_mib: Annotated[int, Field(ge=1, le=2**20)] | Literal["auto"] = "auto"
    """With this much free beside it, the draft model may come back. auto: the reserve."""
    pressure_hold_s: float = Field(default=30.0, ge=0)
    """Seconds without any pressure before the draft model may come back."""
    pressure_poll_s: float = Field(default=0.2, gt=0, le=10)
    """Seconds between two looks at memory."""

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
    queue_timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that a request waits for a slot before it gets 503."""
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
    def draft_ceiling(self) -> int:
        """The most tokens drafted per round."""
        if self.max_draft_tokens != "auto":
            return self.max_draft_tokens
        return 16 if self.controller == "auto" else 4

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
    """The values of the profile and of the configuration file that `load` has read."""

    values: Mapping[str, Any] = {}

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(self.values)


def default_config_path() -> Path:
    """Raises ConfigError when this user has no home to hold one."""
    try:
        return platformdirs.user_config_path("homespec") / "config.toml"
    except RuntimeError as error:
        raise ConfigError("there is no home folder for a configuration; pass --config, or set HOME") from error


@dataclass(frozen=True, slots=True)
class Layers:
    """Everything that settings are made of, and where each value came from."""

    settings: Settings
    origins: dict[str, str]
    """By key: default, profile NAME, the file, the variable or the flag."""


def load(flags: Mapping[str, Any], config_file: Path | None = None) -> Settings:
    """Merge all layers. `flags` holds only what was given on the command line.

    Raises ConfigError in one line: the key, the value, what is allowed, and where it was set.
    """
    return load_layers(flags, config_file).settings


def load_layers(flags: Mapping[str, Any], config_file: Path | None = None) -> Layers:
    """The same, with the origin of each value. Raises ConfigError."""
    values, file = _read_file(config_file)
    _check_keys(values, file)
    _check_environment()
    profile = _profile(flags, values)
    _FileSource.values = {**(profile.values() if profile else {}), **values}
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        raise ConfigError(_first_fault(error, flags, values, file)) from error
    finally:
        _FileSource.values = {}
    _check_together(settings)
    return Layers(settings, {key: _origin(key, flags, values, file, profile) for key in Settings.model_fields})


def _profile(flags: Mapping[str, Any], values: Mapping[str, Any]) -> Profile | None:
    """The profile that the layers above it ask for. `auto` on a box of no known kind is none."""
    variables = {name.upper(): value for name, value in os.environ.items()}
    name = str(flags.get("profile") or variables.get("HOMESPEC_PROFILE") or values.get("profile") or OFF)
    if name == OFF:
        return None
    return pick(detect()) if name == AUTO else named(name)


def _origin(key: str, flags: Mapping[str, Any], values: Mapping[str, Any], file: str, profile: Profile | None) -> str:
    if key in flags:
        return f"flag --{key.replace('_', '-')}"
    variable = ENV_PREFIX + key.upper()
    if variable in {name.upper() for name in os.environ}:
        return f"environment {variable}"
    if key in values:
        return f"file {file}"
    reason = profile.reason(key) if profile else None
    return f"profile {profile.name}: {reason}" if profile and reason else "default"


def _read_file(config_file: Path | None) -> tuple[dict[str, Any], str]:
    from_environment = os.environ.get("HOMESPEC_CONFIG")
    named = config_file or (Path(from_environment) if from_environment else None)
    try:
        path = named or default_config_path()
    except ConfigError:  # a dynamic user has no home, and needs none
        return {}, "no file"
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


def _check_together(settings: Settings) -> None:
    """What no key alone can tell. Raises ConfigError."""
    check_exposure(settings)
    if settings.past_outputs_file and not settings.past_outputs_mib:
        raise ConfigError(
            f"past_outputs_file {settings.past_outputs_file} is set and past_outputs_mib is 0: nothing would be kept; "
            "set past_outputs_mib, or leave the file out"
        )
    _check_marks(settings)
    _check_contradictions(settings)


def _check_contradictions(settings: Settings) -> None:
    if settings.flash_attention == "off" and settings.kv_type.startswith("q"):
        raise ConfigError(
            f"kv_type {settings.kv_type!r} needs flash attention, which flash_attention = 'off' forbids; "
            f"use kv_type 'f16', or flash_attention 'auto'"
        )


def check_exposure(settings: Settings) -> None:
    """Raise ConfigError when other machines could use the daemon without a key and nobody said that they may."""
    keys = settings.api_keys()
    if settings.api_key_file and not keys:
        raise ConfigError(f"api_key_file {settings.api_key_file} holds no key; write one per line, or leave it out")
    if not settings.loopback_only and not settings.insecure and not keys:
        raise ConfigError(
            f"host {settings.host!r} is reachable from other machines and no API key is set; set HOMESPEC_API_KEY or "
            f"api_key_file, or pass --insecure to serve everyone who can connect"
        )


def _check_marks(settings: Settings) -> None:
    low, high = settings.low_mark_mib, settings.high_mark_mib
    if low != "auto" and high != "auto" and low >= high:
        raise ConfigError(
            f"low_mark_mib {low} is not below high_mark_mib {high}; between the two a draft model stays as it is, so "
            f"leave some room"
        )
