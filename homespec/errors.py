"""Every error raised on purpose, and the exit codes they map to.

HomespecError                 base: its text is one line with the value, the limit and the remedy
├── ConfigError               a setting is unknown, malformed or contradicts another
├── AddressInUse              the port cannot be bound
├── ServiceError              the service manager is missing, or refuses, or its files cannot be written
├── HubError                  a model cannot be fetched from the hub
├── ModelError                the target cannot be served
│   ├── ModelNotFound         missing, a directory, or not readable
│   ├── ModelCorrupt          not a GGUF, cut short, an LFS pointer, a web page
│   ├── ModelUnsupported      a sound file that this build of llama.cpp cannot run
│   ├── DoesNotFit            the target and its context are larger than the memory that may be used
│   └── GpuMissing            layers are to lie on a GPU, and there is none
├── DeriveError               a copy of a model cannot be made or is of no use as a drafter
├── DrafterError              a drafter cannot be used; the target goes on without it
├── RequestError              the client's fault (4xx) or a refusal (503), OpenAI-shaped
├── EngineError               the engine process died, stalled or broke its protocol
├── DecodeError               llama_decode failed
│   └── KvCacheFull           no room in the KV cache for this batch; nothing was changed
├── Interrupted               a call to llama.cpp was given up for something urgent; nothing was changed
└── MissingSymbol             the llama.cpp library lacks a function that was asked for
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes; documented in docs/commands.md."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    CONFIG = 3
    MODEL = 4
    ADDRESS_IN_USE = 5
    ENGINE_FAILED = 6
    UNREACHABLE = 7
    SLOWER = 8
    DOES_NOT_FIT = 9
    CANNOT_TELL = 10


class HomespecError(Exception):
    """Base of every error raised on purpose."""

    exit_code = ExitCode.FAILURE


class ConfigError(HomespecError):
    """A setting is unknown, malformed or contradicts another."""

    exit_code = ExitCode.CONFIG


class AddressInUse(HomespecError):
    """The port cannot be bound."""

    exit_code = ExitCode.ADDRESS_IN_USE


class ServiceError(HomespecError):
    """The service manager is missing, or refuses, or its files cannot be written."""


class HubError(HomespecError):
    """A model cannot be fetched from the hub."""


class ModelError(HomespecError):
    """The target cannot be served."""

    exit_code = ExitCode.MODEL


class ModelNotFound(ModelError):
    """The model file is missing, a directory, or not readable."""


class ModelCorrupt(ModelError):
    """The file is not a GGUF, is cut short, or has a header that contradicts itself."""


class ModelUnsupported(ModelError):
    """The file is sound, but this build of llama.cpp cannot run it."""


class DoesNotFit(ModelError):
    """The target and its context are larger than the memory that may be used."""

    exit_code = ExitCode.DOES_NOT_FIT


class GpuMissing(ModelError):
    """Layers are to lie on a GPU, and there is none: not yet, or not any more."""

    exit_code = ExitCode.ENGINE_FAILED
    HELP = "'homespec doctor' looks at the driver"

    @classmethod
    def check(cls, n_gpu_layers: int, devices: Sized, *, expected: bool) -> None:
        """Raise when layers are to lie on a GPU and there is none: llama.cpp takes the CPU and says nothing.

        expected: one has been in use, so that it is missed also where no number of layers asks for it.
        """
        if expected and n_gpu_layers and not devices:
            raise cls(f"the GPU that was in use is gone: llama.cpp finds none any more; {cls.HELP}")
        if n_gpu_layers > 0 and not devices:
            raise cls(f"gpu_layers = {n_gpu_layers} asks for a GPU, and llama.cpp finds none; {cls.HELP}")


class DrafterError(HomespecError):
    """A drafter cannot be used; the target goes on without it."""


class EngineError(HomespecError):
    """The engine process died, stalled or broke its protocol."""

    exit_code = ExitCode.ENGINE_FAILED


class DecodeError(HomespecError):
    """llama_decode failed; the context is not usable any more."""


class KvCacheFull(DecodeError):
    """The KV cache has no room for this batch; nothing was changed."""


class Interrupted(HomespecError):
    """A call to llama.cpp was given up before its end; nothing was changed."""


class MissingSymbol(HomespecError):
    """The llama.cpp library lacks a function that was asked for."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An OpenAI-shaped error: what crosses the process boundary and the wire."""

    message: str
    status: int = 400
    """HTTP status."""
    type: str = "invalid_request_error"
    param: str | None = None
    """The request field at fault, if one is."""
    code: str | None = None
    retry_after_s: int | None = None
    """Sent as the Retry-After header."""


class DeriveError(HomespecError):
    """A smaller copy of a model cannot be made, or would be of no use as a drafter."""


class RequestError(HomespecError):
    """A request is refused; carries everything the client is told."""

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.info = ErrorInfo(message, **fields)  # type: ignore[arg-type]

    @classmethod
    def of(cls, info: ErrorInfo) -> RequestError:
        error = cls(info.message)
        error.info = info
        return error
