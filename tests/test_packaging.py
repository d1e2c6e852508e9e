"""What is shipped beside the program matches the program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from homespec.metrics import render
from tests.tui import snapshots

GRAFANA = Path(__file__).parents[1] / "packaging" / "grafana" / "homespec.json"
_METRIC = re.compile(r"\b(?:homespec_|vllm:)\w+")
_LABEL = re.compile(r"(?:by \(|\{\{)(\w+)")


def _queries() -> Iterator[tuple[str, str]]:
    for panel in json.loads(GRAFANA.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def test_every_metric_and_label_of_the_grafana_dashboard_exists() -> None:
    samples = [
        sample
        for family in text_string_to_metric_families(render(snapshots.speculating()).decode())
        for sample in family.samples
    ]
    names = {sample.name for sample in samples} | {"homespec_skipped_drafts_total"}
    labels = {label for sample in samples for label in sample.labels} | {"reason", "instance"}
    for expression, legend in _queries():
        assert set(_METRIC.findall(expression)) <= names
        assert set(_LABEL.findall(expression + legend)) <= labels


def test_panels_of_the_grafana_dashboard_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in json.loads(GRAFANA.read_text())["panels"]
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
