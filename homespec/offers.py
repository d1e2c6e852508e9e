"""The models that a request may name: the one the daemon is for, those of the configuration, those of the stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from homespec.config import Settings
from homespec.errors import ConfigError, HomespecError
from homespec.launch import engine_settings
from homespec.split import model_name
from homespec.store.finds import Find, find_all, find_own
from homespec.store.model_file import check_file, find, resolve, served_name
from homespec.supervision.plan import Fit, Plan

_STORES: dict[str, Callable[[Path | None], tuple[Find, ...]]] = {
    "own": find_own,
    "all": find_all,
    "off": lambda _: (),
}

MakeFit = Callable[[Settings], Fit | None]


@dataclass(frozen=True, slots=True)
class Offer:
    """One model that can be asked for."""

    id: str
    """What clients call it."""
    path: Path
    settings: Settings

    def is_called(self, name: str) -> bool:
        return name in (self.id, self.path.name, model_name(self.path))


class Offers:
    """Looks into the stores, which blocks: from a thread, but for `default` and `known`."""

    def __init__(self, settings: Settings, make_fit: MakeFit) -> None:
        """Raises ConfigError, ModelNotFound or ModelCorrupt for the model that the daemon is for; another one may be
        broken or not there yet.
        """
        self._settings = settings
        self._make_fit = make_fit
        self._plans: dict[str, Plan] = {}
        self._making = Lock()
        self.default = self._default()
        self._named = [self.default, *self._others()]
        self.plan(self.default)

    @property
    def known(self) -> tuple[Offer, ...]:
        """Without those of the stores; the default first."""
        return tuple(self._named)

    def all(self) -> tuple[Offer, ...]:
        """Every one, each file once."""
        return (*self._named, *self._stored())

    def find(self, name: str) -> Offer | None:
        """By its id, else by its file."""
        return self.find_known(name) or _called(name, tuple(self._stored()))

    def find_known(self, name: str) -> Offer | None:
        """The same without a look into the stores."""
        return _called(name, self.known)

    def plan(self, offer: Offer) -> Plan:
        """How it is loaded; always the same one, so that what is learned of it stays. Raises ModelError for a file that
        cannot be served.
        """
        with self._making:
            if offer.id not in self._plans:
                path = check_file(str(offer.path))
                asked = engine_settings(offer.settings, path, offer.id)
                self._plans[offer.id] = Plan(asked, self._make_fit(offer.settings))
            return self._plans[offer.id]

    def plan_made(self, offer: Offer) -> Plan | None:
        """None while nobody has asked for it."""
        return self._plans.get(offer.id)

    def take_over(self, before: Offers) -> None:
        """Go on with the plans of an earlier configuration where nothing about them has changed."""
        with before._making:  # requests may have more plans made there while this goes on
            plans = dict(before._plans)
        for model_id, old in plans.items():
            if (offer := self.find(model_id)) is None:
                continue
            with suppress(HomespecError):  # whoever asks for it is told
                new = self.plan(offer)
                if new.asked == old.asked:
                    old.fit = new.fit
                    self._plans[model_id] = old

    def _default(self) -> Offer:
        settings = self._settings
        if settings.model is None and not settings.demo and settings.models:
            return next(self._configured())
        if settings.model in settings.models:
            return next(offer for offer in self._configured() if offer.id == settings.model)
        path = resolve(settings.model, demo=settings.demo, models_dir=settings.models_dir)
        return Offer(settings.model_id or served_name(settings.model, path), path, settings)

    def _others(self) -> Iterator[Offer]:
        for offer in self._configured():
            if offer.id != self.default.id:
                yield offer
            elif offer.path != self.default.path:
                raise ConfigError(
                    f"models.{offer.id} is called like the model that is served first, {self.default.path}; give one "
                    f"of them another name"
                )

    def _configured(self) -> Iterator[Offer]:
        for name, table in self._settings.models.items():
            given = {key: value for key, value in table.items() if key != "path"}
            path = find(table["path"], self._settings.models_dir)
            yield Offer(name, path, self._settings.of_model(name, str(path), given))

    def _stored(self) -> Iterator[Offer]:
        look = _STORES[self._settings.offer]
        taken = {os.path.realpath(offer.path) for offer in self._named}
        names = {offer.id for offer in self._named}
        for found in look(self._settings.models_dir):
            if found.name not in names and os.path.realpath(found.path) not in taken:
                names.add(found.name)
                yield Offer(found.name, found.path, self._settings.of_model(found.name, str(found.path), {}))


def _called(name: str, offers: tuple[Offer, ...]) -> Offer | None:
    by_id = (offer for offer in offers if offer.id == name)
    return next(by_id, None) or next((offer for offer in offers if offer.is_called(name)), None)
