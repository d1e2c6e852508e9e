"""What the daemon can be told. Each default is written once, here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from homespec.config.sources import ENV_PREFIX
from homespec.errors import ConfigError
from homespec.folders import denial, expanded
from homespec.ports import DEFAULT_PORT
from homespec.profiles.profile import AUTO, OFF
from homespec.stats import MAX_DRAFT_TOKENS

KvType = Literal["auto", "f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


def _split(value: Any) -> Any:
    """In the environment a list is one text with commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _tables(value: Any) -> Any:
    """A model of which only the path is told may be that text alone. In the environment all of it is JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f'not JSON ({error}); write {{"NAME": "PATH"}}') from error
    if not isinstance(value, dict):
        return value
    if wrong := next((name for name, table in value.items() if not isinstance(table, str | dict)), None):
        raise ValueError(f"{wrong} is {value[wrong]!r}; write a path, or a table with path")
    return {name: {"path": table} if isinstance(table, str) else table for name, table in value.items()}


File = Annotated[Path, AfterValidator(expanded)]
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
    models: Annotated[dict[str, dict[str, Any]], NoDecode, BeforeValidator(_tables)] = Field(default={})
    """More models, by the name that requests use: a path, or a table with `path` and what differs from the rest."""
    offer: Literal["own", "all", "off"] = "own"
    """Models of the stores that a request may name too. own: those of homespec's own store; all: of every store that
    `homespec models` lists; off: none."""
    turn_s: float = Field(default=30.0, ge=0)
    """While requests for other models wait: seconds after its load for which those for the loaded one go first."""
    idle_unload_s: float = Field(default=0.0, ge=0)
    """Seconds without a request after which the draft model is unloaded, and after as many again the target; the next
    request loads them. 0: never."""
    models_dir: File | None = None
    """Folder for pulled models; None: `homespec/models` in the platform's data folder."""
    draft: str = "auto"
    """Path or name of a draft GGUF; `auto`: the free drafters, and of the files that lie with the model the best that
    fits and pays; `off`: no drafting."""
    draft_window: Annotated[int, Field(ge=256, le=2**31 - 1)] | Literal["full"] = 1024
    """Tokens of a sequence that the draft model sees: the first few and the last ones. full: all of them."""
    past_outputs_mib: int = Field(default=0, ge=0, le=2**20)
    """MiB of past answers that the `suffix` drafter may repeat, apart for each API key; 0: none."""
    past_outputs_file: File | None = None
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
    embeddings: Literal["auto", "mean", "cls", "last"] = "auto"
    """auto: an embedding model embeds texts, pooled as its file says, and no other model does; else the pooling, with
    which a model that generates embeds beside, from a context of its own."""
    slots: int = Field(default=4, ge=1, le=64)
    """Requests that run at the same time."""
    cached_prefixes: int = Field(default=8, ge=0, le=128)
    """Finished prompts kept for reuse beside the running ones."""
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    """CPU threads; auto: physical cores this process may use."""
    nice: int = Field(default=5, ge=0, le=19)
    """Added to the engine's nice level, so that other work on the box goes first; 0: as the daemon."""
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | Literal["auto"] = "auto"
    """Layers on the GPU; auto: as many as fit when there is one."""
    gpu_wait_s: float = Field(default=60.0, ge=0)
    """Seconds to look again for a GPU that `gpu_layers` asks for, or that was in use: drivers come up late."""
    gpu_missing: Literal["fail", "cpu"] = "fail"
    """After that; fail: end with an error; cpu: serve from the CPU, and say so. With automatic layers: cpu."""
    kv_type: KvType = "auto"
    """Type of the KV cache. auto: bf16 on the CPU, f16 on a GPU, q8_0 where that does not fit."""
    flash_attention: Literal["auto", "on", "off"] = "auto"
    """auto: on for the CPU, else what the device can do."""
    fit: Literal["auto", "off"] = "auto"
    """auto: measure what the models take before they are loaded, refuse what does not fit; off: load and see."""
    mmap: bool = True
    """Map the model file instead of reading it."""
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
    """Seconds between two looks at memory; less near a low mark, down to an eighth."""

    host: str | None = None
    """Address to listen on; None: both loopbacks, ::1 and 127.0.0.1."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """0 takes a free one."""
    insecure: bool = False
    """Allow an address beyond loopback without an API key."""
    api_key: SecretStr | None = None
    """Set it in the environment; it must not appear on a command line."""
    api_key_file: File | None = None
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
    """Largest request body."""
    stall_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds without progress of a busy engine before it is killed and started again."""
    load_timeout_s: float = Field(default=300.0, gt=0)
    """Seconds without progress of a load before the same."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug shows llama.cpp's own lines too; never a prompt."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings

    def of_model(self, name: str, path: str, given: Mapping[str, Any]) -> Settings:
        """The same for another model. What belongs to one model alone is not taken over: its draft model, its template.

        Raises ConfigError.
        """
        own = {"model": path, "model_id": name, "demo": False, "chat_template": "auto", "embeddings": "auto"}
        if self.draft != OFF:
            own["draft"] = AUTO
        try:
            return Settings(**{**dict(self), **own, **given})
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            key = ".".join(map(str, ("models", name, *fault["loc"][:1])))
            raise ConfigError(f"{key} = {fault['input']!r}: {fault['msg']}") from error

    @property
    def first(self) -> str | None:
        """Name of the entry of `models` that is served first; None where that is not one of them."""
        if self.model is None and not self.demo:
            return next(iter(self.models), None)
        return self.model if self.model in self.models else None

    def of_first(self) -> Settings:
        """Those of the model that is served first. Raises ConfigError."""
        if self.first is None:
            return self
        given = dict(self.models[self.first])
        return self.of_model(self.first, given.pop("path"), given)

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
                lines = self.api_key_file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                reason = denial(error, self.api_key_file) if isinstance(error, OSError) else "it is not UTF-8 text"
                raise ConfigError(
                    f"api_key_file {self.api_key_file} cannot be read: {reason}; name a file with one key per line"
                ) from error
            keys += [key for line in lines if (key := line.strip()) and not key.startswith("#")]
        return frozenset(keys)


OF_A_MODEL = (
    "draft",
    "draft_window",
    "max_draft_tokens",
    "controller",
    "ctx",
    "chat_template",
    "slots",
    "cached_prefixes",
    "threads",
    "gpu_layers",
    "kv_type",
    "flash_attention",
    "mmap",
    "exactness",
    "embeddings",
)
"""Keys that a table of `models` may hold beside `path`."""
