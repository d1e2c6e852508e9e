"""The daemon: does one answer, what does it say of itself; and if none does, is the port free."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from homespec import __version__
from homespec.client.failures import UnreachableError
from homespec.client.http import Client
from homespec.config import Settings
from homespec.doctor.check import Check, fail, ok, warn
from homespec.errors import AddressInUse, ConfigError, HomespecError
from homespec.ports import DEFAULT_PORT
from homespec.service.listening import listen
from homespec.status import DraftState, Phase, Status, Watch

_EVERYWHERE = ("0.0.0.0", "::", "")


def url_of(settings: Settings) -> str:
    """Where a daemon with these settings is reached from this machine."""
    host = settings.host
    if host is None or settings.loopback_only or host in _EVERYWHERE:
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port or DEFAULT_PORT}"


def keys_of(settings: Settings) -> frozenset[str]:
    """None when they cannot be read: whoever asks may not be who serves."""
    try:
        return settings.api_keys()
    except ConfigError:
        return frozenset()


async def ask(url: str, api_key: str | None) -> Status | HomespecError:
    """Its status, or why there is none."""
    try:
        return await Client(url, api_key).status()
    except HomespecError as error:
        return error


def check_absent(url: str, error: HomespecError, settings: Settings) -> Iterator[Check]:
    """What is known while no status comes."""
    if not isinstance(error, UnreachableError):
        yield fail("daemon", f"{url} answers, and gives no status: {error}", "set HOMESPEC_API_KEY, or check --url")
        return
    yield warn("daemon", f"none answers at {url}: {error}", "start it: homespec serve, or homespec service install")
    try:
        for sock in listen(settings.host, settings.port):
            sock.close()
    except AddressInUse as refusal:
        text, _, remedy = str(refusal).rpartition("; ")
        holder = port_holder(settings.port)
        yield fail("port", f"{text}{f' (by {holder})' if holder else ''}", remedy)
    else:
        yield ok("port", f"{settings.port} is free" if settings.port else "any free one")


def port_holder(port: int) -> str | None:
    """Name of the program that listens there; None when nobody does, or it may not be known."""
    try:
        listening = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        pids = [each.pid for each in listening if each.laddr and each.laddr.port == port and each.pid]
        return psutil.Process(pids[0]).name() if pids else None
    except (psutil.Error, OSError):
        return None


def check_status(url: str, status: Status) -> Iterator[Check]:
    """What a daemon says of itself."""
    yield _phase(url, status)
    if status.version != __version__:
        text = f"the daemon is version {status.version}, this program is {__version__}"
        yield warn("version", text, "restart the daemon: systemctl restart homespec")
    if status.engine.restarts:
        text = f"{status.engine.restarts} restarts, the last after: {status.engine.last_exit}"
        yield warn("engine", text, "'homespec service logs' has the reasons; see docs/troubleshooting.md")
    if status.model is not None:
        model = status.model
        devices = ", ".join(model.devices) or "CPU"
        yield ok(
            "loaded", f"{model.description}, {model.n_ctx} tokens, {model.slots} slots, KV {model.kv_type}, {devices}"
        )
    yield ok("exactness", f"{status.exactness}: {status.exactness_reason}")
    yield from _drafters(status)
    if status.memory is not None and status.memory.monitor is not None:
        monitor = status.memory.monitor
        if monitor.watch is Watch.WITHDRAWN:
            yield warn("headroom", monitor.reason, "free memory, or use a smaller drafter; the target is not touched")
        else:
            yield ok("headroom", monitor.reason)


def _phase(url: str, status: Status) -> Check:
    text = f"{status.phase} at {url}" + ("" if status.detail == status.phase else f": {status.detail}")
    match status.phase:
        case Phase.READY | Phase.IDLE if status.degraded is None:
            return ok("daemon", text)
        case Phase.READY | Phase.IDLE:
            remedy = "homespec goes back to the GPU once llama.cpp finds it; see docs/troubleshooting.md"
            return warn("daemon", f"degraded at {url}: {status.degraded}", remedy)
        case Phase.FAILED:
            return fail("daemon", text, "the reason is in its log: homespec service logs")
        case _:
            return warn("daemon", text, "wait; 'homespec top' shows the progress")


def _drafters(status: Status) -> Iterator[Check]:
    """Those that can draft in one line; each that is off for a reason that is none of the user's, in one more."""
    if status.speculation is None:
        return
    speculation = status.speculation
    ready = [drafter.name for drafter in speculation.drafters if drafter.state is DraftState.READY]
    yield ok("drafting", f"mode {speculation.mode}; ready: {', '.join(ready) or 'none'}")
    for drafter in speculation.drafters if speculation.mode != "off" else ():
        if drafter.state is DraftState.OFF and drafter.path is not None:
            yield warn(
                "drafter", f"{drafter.name}: {drafter.reason}", "see docs/drafters.md; 'homespec pair' looks closer"
            )
