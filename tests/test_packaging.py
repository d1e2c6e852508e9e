"""What is shipped beside the program matches the program."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from homespec.metrics import render
from tests.tui import snapshots

ROOT = Path(__file__).parents[1]
GRAFANA = ROOT / "packaging" / "grafana" / "homespec.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
needs_hatchling = pytest.mark.skipif(not importlib.util.find_spec("hatchling"), reason="hatchling is not installed")
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


def _name(requirement: str) -> str:
    """Of a distribution, spelt as the index does."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()


def _imports() -> set[str]:
    """First names of all modules that homespec imports, wherever it does."""
    found: set[str] = set()
    for path in (ROOT / "homespec").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"homespec"}


def test_what_is_imported_is_declared() -> None:
    """Or comes with what is declared: the base of Pydantic and FastAPI, the web server below an extra."""
    extras = [extra for name, extra in PROJECT["optional-dependencies"].items() if name != "dev"]
    declared = {_name(each) for each in (*PROJECT["dependencies"], *chain(*extras))}
    with_them = {_name(each) for name in declared for each in requires(name) or () if "extra ==" not in each}
    homes = packages_distributions()
    for module in _imports():
        assert {_name(home) for home in homes[module]} & (declared | with_them), module


def test_every_extra_that_a_remedy_names_is_one() -> None:
    """From the checkout: the name alone would be looked for in the index, where it is not."""
    texts = [*(ROOT / "homespec").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = [extra for path in texts for extra in re.findall(r"install .*?(\S*)\[([\w,]+)\]'", path.read_text())]
    assert len(named) > 4
    for what, extras in named:
        assert what == "'."
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_installers_that_read_no_constraints_are_given_them() -> None:
    text = (ROOT / "docs/install.md").read_text().replace("\\\n", "")
    commands = re.findall(r"^.*(?:pipx|uv tool) install .+$", text, re.MULTILINE)
    assert len(commands) == 4
    assert all("constraints.txt" in command for command in commands)


@needs_hatchling
def test_the_wheel_holds_all_that_the_program_reads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    ours = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "homespec").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert {"homespec/py.typed", "homespec/tui/app.tcss", "homespec/service/templates/system.service"} <= ours
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert f"Requires-Python: {PROJECT['requires-python']}" in metadata
