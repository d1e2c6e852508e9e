"""`homespec models`, `pull` and `rm`."""

from __future__ import annotations

import json
import sys

from homespec.config import load
from homespec.errors import ExitCode
from homespec.split import model_name
from homespec.store.catalogue import as_records, as_table, entries, read_entry
from homespec.store.finds import OWN, Find
from homespec.store.hub import pull
from homespec.store.places import models_dir
from homespec.store.remove import remove
from homespec.store.suggestions import suggest


def print_models(*, as_json: bool) -> ExitCode:
    """List every model of this machine."""
    configured = load({}).models_dir
    known = entries(configured)
    if as_json:
        print(json.dumps(as_records(known), indent=2))
    elif known:
        print(as_table(known))
    else:
        _say(f"no models in {models_dir(configured)} or other stores; fetch one with 'homespec pull OWNER/NAME-GGUF'")
    return ExitCode.OK


def pull_model(spec: str) -> ExitCode:
    """Fetch a model; its path goes to stdout."""
    configured = load({}).models_dir
    path = pull(spec, configured, _say)
    target = read_entry(Find(model_name(path), OWN, path))
    print(path)
    _say(f"serve it: homespec serve '{target.name}'")
    _say(suggest(target, entries(configured)))
    return ExitCode.OK


def remove_model(name: str) -> ExitCode:
    """Delete a model of homespec's own store; the files that are gone go to stdout."""
    for path in remove(name, load({}).models_dir):
        print(path)
    return ExitCode.OK


def _say(line: str) -> None:
    print(line, file=sys.stderr)
