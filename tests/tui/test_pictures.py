"""The pictures in the documents are of the recordings that lie beside the tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from homespec.units import format_rate

from .pictures import FOLDER, PICTURES, Picture, moment_of
from .recording import load_exchange


def test_there_are_no_others() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {picture.name for picture in PICTURES}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_shows_its_moment(picture: Picture) -> None:
    svg = (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8")
    text = " ".join("".join(element.itertext()) for element in ElementTree.fromstring(svg).iter()).replace("\xa0", " ")
    _, status = moment_of(picture)
    assert ("? stale" if picture.is_lost else f" {status.phase}") in text
    if not picture.keys and status.throughput.tokens_per_second is not None:
        assert format_rate(status.throughput.tokens_per_second) in text
    if picture.is_chat:
        assert load_exchange().question[:20] in text
        assert "text-decoration: underline" in svg
        assert "of the text" in text
    assert not re.search(r"url\(.?http", svg)
