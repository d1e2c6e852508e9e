"""A report for others holds nothing that belongs to one person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.doctor.check import fail
from homespec.doctor.privacy import Privacy
from homespec.doctor.report import as_json, as_lines, cleaned

ADA = Privacy.of("/home/ada", "ada", "adas-box", {"HF_TOKEN": "hf_abcdef", "PATH": "/bin"}, ["sk-key"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/models/x.gguf", "~/models/x.gguf"),
        ("in /home/ada: no", "in ~: no"),
        ("/home/ada", "~"),
        ("/home/adam/x", "/home/…/x"),
        ("/Users/eve/Library/x", "/Users/…/Library/x"),
        ("/srv/home/ada/x", "/srv/home/(user)/x"),
        ("usermod -aG video ada", "usermod -aG video (user)"),
        ("http://adas-box:8642", "http://(host):8642"),
        ("adaptive", "adaptive"),
        ("token hf_abcdef, key sk-key", "token (secret), key (secret)"),
        ("nothing of anybody's", "nothing of anybody's"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert ADA.clean(text) == shown


def test_nobody_in_particular_has_no_name_to_hide() -> None:
    root = Privacy.of("/root", "root", "localhost", {}, [])
    assert root.clean("root of /root/x on localhost") == "root of ~/x on localhost"
    homeless = Privacy.of(None, "", "", {"API_KEY": ""}, [])
    assert homeless.clean("/var/lib/homespec") == "/var/lib/homespec"


@given(st.text(), st.text())
def test_no_secret_survives_whatever_is_around_it(before: str, after: str) -> None:
    shown = ADA.clean(f"{before}hf_abcdef{after}/home/ada/sk-key")
    assert "hf_abcdef" not in shown
    assert "sk-key" not in shown


def test_a_report_is_clean_in_both_forms_and_a_line_each() -> None:
    checks = cleaned([fail("model", "/home/ada/a\nb.gguf is gone", "look in /home/ada")], ADA)
    assert [*as_lines(checks)] == [
        "fail  model          ~/a\\nb.gguf is gone",
        "                     → look in ~",
        "0 ok, 0 warn, 1 fail",
    ]
    assert "ada" not in as_json(checks)
