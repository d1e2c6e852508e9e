"""`homespec doctor`: every check in its order, and the report."""

from __future__ import annotations

import asyncio
import getpass
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from homespec import __version__
from homespec.config import Settings
from homespec.doctor.build import Facts, check_build, pinned, read_facts, read_processor
from homespec.doctor.check import Check, exit_code, ok
from homespec.doctor.configuration import examine_configuration
from homespec.doctor.daemon import ask, check_absent, check_status, keys_of, url_of
from homespec.doctor.folders import check_folders, store_folder
from homespec.doctor.gpu import check_gpus, read_gpus
from homespec.doctor.machine import examine_machine
from homespec.doctor.models import check_draft, check_fit, check_others, find_target
from homespec.doctor.privacy import Privacy
from homespec.doctor.report import as_json, as_lines, cleaned
from homespec.doctor.unit import examine_service
from homespec.errors import ExitCode
from homespec.status import Phase, Status


def examine(url: str | None, api_key: str | None, config_file: Path | None, *, as_json_text: bool) -> ExitCode:
    """Print what was found. FAILURE when something does not work.

    url, api_key: None takes those of the configuration.
    """
    settings, configuration = examine_configuration(config_file)
    keys = keys_of(settings)
    found = _everything(url or url_of(settings), api_key or next(iter(sorted(keys)), None), settings, configuration)
    checks = cleaned(found, Privacy.of(os.environ.get("HOME"), _user(), platform.node(), os.environ, keys))
    print(as_json(checks) if as_json_text else "\n".join(as_lines(checks)))
    return exit_code(checks)


def _everything(url: str, api_key: str | None, settings: Settings, configuration: Check) -> Iterator[Check]:
    yield ok("homespec", f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    facts = read_facts()
    yield from check_build(facts, read_processor(), pinned())
    asked = None if settings.gpu_layers == "auto" else settings.gpu_layers
    yield from check_gpus(read_gpus(), facts.gpus if isinstance(facts, Facts) else None, asked)
    yield configuration
    first = settings.of_first()
    path, model = find_target(first)
    yield model
    if draft := check_draft(first):
        yield draft
    yield from check_others(settings)
    status = asyncio.run(ask(url, api_key))
    is_held = isinstance(status, Status) and status.phase is not Phase.FAILED
    # What a running daemon holds is not free for a plan of the same model.
    if path is not None and isinstance(facts, Facts) and not is_held:
        yield from asyncio.run(check_fit(first, path))
    yield from check_status(url, status) if isinstance(status, Status) else check_absent(url, status, settings)
    yield from examine_service()
    yield from check_folders(settings)
    yield from examine_machine(store_folder(settings))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""
