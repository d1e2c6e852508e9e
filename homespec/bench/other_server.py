"""The server that ours is compared with: which model it is asked for, and what it remembers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from homespec.bench.measure import Endpoint
from homespec.bench.options import Options
from homespec.bench.patience import PromptFailed, PromptRefused, patiently
from homespec.bench.server_name import OF_THE_KEY, THEIRS, named
from homespec.bench.sides import Side
from homespec.client.http import Client, ListedModel
from homespec.errors import ConfigError, HomespecError, RequestError

_PARTS_ITS_CACHE = frozenset({"homespec", "vllm"})
"""Servers that know `cache_salt`; others may refuse a field that they do not know."""


async def other_server(side: Side, options: Options, run_id: str) -> Endpoint:
    """Raises ConfigError when it is not clear which model is meant, and what the client raises."""
    client = Client(str(options.against).rstrip("/").removesuffix("/v1"), options.against_key)
    listed = await _listed(client, options.against_model)
    model = choose(listed, options.against_model, client.url)
    fields = {"model": model} if model else {}
    if {each.owned_by for each in listed} & _PARTS_ITS_CACHE:
        fields["cache_salt"] = f"bench-{run_id}"
    return Endpoint(side, client, fields, THEIRS, options.against_timeout_s)


def choose(listed: Sequence[ListedModel], wanted: str | None, url: str) -> str | None:
    """The name to ask for; None when it lists none. Raises ConfigError rather than take whichever comes first."""
    names = [each.id for each in listed]
    if wanted is not None:
        if names and wanted not in names:
            near = difflib.get_close_matches(wanted, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"--against-model {wanted!r} is not served at {url}{hint}; there are: {', '.join(names)}")
        return wanted
    # Ours lists the one that it is for, and then what it could load.
    if len(names) > 1 and listed[0].owned_by != "homespec":
        raise ConfigError(f"{url} serves {len(names)} models; name one with --against-model: {', '.join(names)}")
    return names[0] if names else None


async def _listed(client: Client, wanted: str | None) -> list[ListedModel]:
    """Empty where it has no list and a name was given."""
    try:
        with named(client, THEIRS):
            models, _ = await patiently(client.models)
    except (PromptRefused, PromptFailed) as error:
        if wanted is not None:
            return []
        raise HomespecError(f"{client.url}/v1/models: {error}; name its model with --against-model") from error
    except RequestError as error:
        if wanted is not None and error.info.status not in OF_THE_KEY:
            return []
        raise
    return models
