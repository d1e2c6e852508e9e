"""Layers of settings and what is said about a wrong one."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.config import Settings, load, load_layers, load_to_serve
from homespec.config.example import SAMPLES, example, meanings
from homespec.config.report import as_json, as_text, toml
from homespec.errors import ConfigError, ExitCode
from homespec.profiles.box import Box
from homespec.profiles.profile import named
from homespec.units import GIB


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration folder and an environment without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HOMESPEC_CONFIG", *(f"HOMESPEC_{field.upper()}" for field in Settings.model_fields)):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def write_config(home: Path) -> Any:
    """Writes the file that is read when none is named."""

    def write(text: str) -> Path:
        path = home / "config" / "homespec" / "config.toml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    return write


def fault(flags: dict[str, Any], config_file: Path | None = None) -> str:
    """The one line that a daemon's start complains with."""
    with pytest.raises(ConfigError) as caught:
        load_to_serve(flags, config_file)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code is ExitCode.CONFIG
    return message


def test_each_layer_beats_the_one_below(write_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load({}).slots == Settings.model_fields["slots"].default
    write_config("slots = 5\nctx = 1000\nport = 1001")
    assert load({}).slots == 5
    monkeypatch.setenv("HOMESPEC_SLOTS", "6")
    monkeypatch.setenv("HOMESPEC_PORT", "1002")
    assert load({}).slots == 6
    merged = load({"slots": 7})
    assert (merged.slots, merged.port, merged.ctx) == (7, 1002, 1000)


def test_a_named_file_is_read_instead_of_the_usual_one(
    write_config: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config("slots = 5")
    named, by_flag = home / "named.toml", home / "flag.toml"
    named.write_text("ctx = 512")
    by_flag.write_text("ctx = 1024")
    monkeypatch.setenv("HOMESPEC_CONFIG", str(named))
    assert (load({}).slots, load({}).ctx) == (4, 512)
    assert load({}, by_flag).ctx == 1024


def test_one_load_does_not_leak_into_the_next(home: Path) -> None:
    path = home / "named.toml"
    path.write_text("slots = 5")
    assert load({}, path).slots == 5
    assert load({}).slots == 4


def test_zero_and_false_are_values(write_config: Any) -> None:
    write_config("max_draft_tokens = 8\nmmap = true\nport = 5000")
    merged = load({"max_draft_tokens": 0, "port": 0, "mmap": False})
    assert (merged.max_draft_tokens, merged.port, merged.mmap) == (0, 0, False)


def test_the_case_of_a_variable_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("homespec_slots", "6")
    assert load({}).slots == 6


def test_lists_in_the_environment_have_commas(monkeypatch: pytest.MonkeyPatch, write_config: Any) -> None:
    monkeypatch.setenv("HOMESPEC_ALLOWED_HOSTS", "box.lan, nas.lan,")
    write_config("cors_origins = ['http://a', 'http://b']")
    settings = load({})
    assert settings.allowed_hosts == ("box.lan", "nas.lan")
    assert settings.cors_origins == ("http://a", "http://b")


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ({"slots": 0}, ["--slots = 0", "1"]),
        ({"slots": 65}, ["--slots = 65", "64"]),
        ({"port": 65536}, ["--port = 65536", "65535"]),
        ({"ctx": "many"}, ["--ctx = 'many'", "integer", "'auto'"]),
        ({"ctx": 1}, ["--ctx = 1", "256"]),
        ({"threads": 0}, ["--threads = 0"]),
        ({"gpu_layers": -2}, ["--gpu-layers = -2"]),
        ({"max_draft_tokens": 17}, ["--max-draft-tokens = 17", "16"]),
        ({"kv_type": "q3"}, ["--kv-type = 'q3'", "'q8_0'"]),
        ({"log_level": "loud"}, ["--log-level = 'loud'", "'debug'"]),
        ({"stall_timeout_s": 0}, ["--stall-timeout-s = 0", "greater than 0"]),
        ({"max_body_bytes": 10}, ["--max-body-bytes = 10", "1024"]),
    ],
)
def test_a_bad_flag_names_value_and_limit(flags: dict[str, Any], fragments: list[str]) -> None:
    message = fault(flags)
    for fragment in fragments:
        assert fragment in message


def test_where_a_bad_value_was_set_is_named(write_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_config("slots = 0")
    assert f"slots in {path} = 0" in fault({})
    assert "--slots = 99" in fault({"slots": 99})
    path.write_text("")
    monkeypatch.setenv("HOMESPEC_SLOTS", "x")
    assert "HOMESPEC_SLOTS = 'x'" in fault({})


def test_the_environment_is_named_when_it_beats_the_file(write_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config("slots = 5")
    monkeypatch.setenv("HOMESPEC_SLOTS", "x")
    assert "HOMESPEC_SLOTS = 'x'" in fault({})


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("slotz = 4", ["'slotz'", "'slots'"]),
        ("prot = 1", ["'prot'", "'port'"]),
        ("zzzzzz = 1", ["'zzzzzz'", "docs/"]),
        ("[server]\nport = 1", ["'server'"]),
        ("api_key = 'abc'", ["HOMESPEC_API_KEY", "api_key_file"]),
    ],
)
def test_unknown_keys(write_config: Any, text: str, fragments: list[str]) -> None:
    path = write_config(text)
    message = fault({})
    for fragment in [str(path), *fragments]:
        assert fragment in message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"slots == 4", "not valid TOML"),
        (b"slots = 4\nslots = 5", "not valid TOML"),
        (b"\xff\xfe", "not text in UTF-8, at byte 0"),
    ],
)
def test_a_broken_file(write_config: Any, content: bytes, reason: str) -> None:
    path = write_config("")
    path.write_bytes(content)
    message = fault({})
    assert str(path) in message
    assert reason in message


def test_a_file_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be read" in fault({}, home)
    assert str(home / "nope.toml") in fault({}, home / "nope.toml")
    monkeypatch.setenv("HOMESPEC_CONFIG", str(home / "nope.toml"))
    assert "HOMESPEC_CONFIG" in fault({})


@pytest.mark.parametrize(
    ("name", "nearest"), [("HOMESPEC_SLOTZ", "HOMESPEC_SLOTS"), ("HOMESPEC_API_KEYS", "HOMESPEC_API_KEY")]
)
def test_unknown_variables(monkeypatch: pytest.MonkeyPatch, name: str, nearest: str) -> None:
    monkeypatch.setenv(name, "1")
    message = fault({})
    assert name in message
    assert f"'{nearest}'" in message


def test_memory_marks_leave_room_between_them() -> None:
    settings = load({"low_mark_mib": 100, "high_mark_mib": 200})
    assert (settings.low_mark_mib, settings.high_mark_mib, settings.reserve_mib) == (100, 200, "auto")
    assert load({"low_mark_mib": 5000}).high_mark_mib == "auto"
    for low in (200, 300):
        message = fault({"low_mark_mib": low, "high_mark_mib": 200})
        assert f"low_mark_mib {low} is not below high_mark_mib 200" in message


@pytest.mark.parametrize(
    "flags", [{"reserve_mib": -1}, {"low_mark_mib": "some"}, {"pressure_poll_s": 0}, {"pressure_hold_s": -1}]
)
def test_marks_that_make_no_sense(flags: dict[str, Any]) -> None:
    [(key, value)] = flags.items()
    message = fault(flags)
    assert key.replace("_", "-") in message
    assert repr(value) in message


@pytest.mark.parametrize("host", [None, "127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_key(host: str | None) -> None:
    assert load_to_serve({"host": host} if host else {}).api_keys() == frozenset()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.lan", ""])
def test_other_addresses_need_a_key_or_a_word(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = fault({"host": host})
    for fragment in (repr(host), "HOMESPEC_API_KEY", "api_key_file", "--insecure"):
        assert fragment in message
    assert load_to_serve({"host": host, "insecure": True}).insecure
    monkeypatch.setenv("HOMESPEC_API_KEY", "abc")
    assert load_to_serve({"host": host}).api_keys() == {"abc"}


def test_who_does_not_listen_needs_no_key(home: Path) -> None:
    """The key may be in the environment of the service alone, or in a file that only the service may read."""
    settings = load({"host": "0.0.0.0", "api_key_file": home / "not for us", "slots": 2})
    assert (settings.host, settings.slots) == ("0.0.0.0", 2)


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_API_KEY", "")
    assert load({}).api_keys() == frozenset()
    assert "no API key" in fault({"host": "0.0.0.0"})


def test_keys_of_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "keys"
    path.write_text("# family\none\n\n  two  \n#three\n  # guests\n")
    monkeypatch.setenv("HOMESPEC_API_KEY", "four")
    assert load({"api_key_file": path}).api_keys() == {"one", "two", "four"}


def test_a_tilde_is_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    (home / "keys").write_text("one")
    given = {"api_key_file": "~/keys", "models_dir": "~/models", "past_outputs_file": "~/past", "past_outputs_mib": 1}
    settings = load(given)
    assert settings.api_keys() == {"one"}
    assert (settings.models_dir, settings.past_outputs_file) == (home / "models", home / "past")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_key_file_without_a_key_does_not_open_the_door(home: Path, text: str) -> None:
    path = home / "keys"
    path.write_text(text)
    message = fault({"api_key_file": path})
    assert str(path) in message
    assert "no key" in message


def test_a_key_file_that_is_not_there(home: Path) -> None:
    (home / "binary").write_bytes(b"\x97")
    assert "cannot be read: it is not UTF-8 text; name a file with one key per line" in fault(
        {"api_key_file": home / "binary"}
    )
    message = fault({"api_key_file": home / "nope"})
    assert str(home / "nope") in message
    assert "No such file" in message


def test_a_key_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_API_KEY", "sk-secret")
    assert "sk-secret" not in repr(load({}))
    assert "sk-secret" not in fault({"slots": 0})


def test_a_file_for_past_outputs_needs_room_for_them(home: Path) -> None:
    message = fault({"past_outputs_file": str(home / "answers")})
    assert str(home / "answers") in message
    assert "past_outputs_mib" in message
    assert load({"past_outputs_file": str(home / "answers"), "past_outputs_mib": 16}).past_outputs_mib == 16


@pytest.mark.parametrize(("window", "allowed"), [(256, True), ("full", True), (255, False), ("all", False)])
def test_a_draft_window_is_a_number_or_full(window: int | str, allowed: bool) -> None:
    if allowed:
        assert load({"draft_window": window}).draft_window == window
    else:
        assert "draft-window" in fault({"draft_window": window})


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load({}).slots = 5  # type: ignore[misc]


def test_a_profile_lies_between_the_defaults_and_the_file(write_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = named("cpu-8")
    assert load({"profile": "cpu-8"}).slots == profile.values()["slots"] != Settings.model_fields["slots"].default
    write_config("slots = 5\nprofile = 'cpu-8'")
    settings = load({})
    assert (settings.slots, settings.ctx) == (5, profile.values()["ctx"])
    monkeypatch.setenv("HOMESPEC_PROFILE", "off")
    assert load({}).ctx == "auto"
    assert load({"profile": "cpu-16"}).ctx == named("cpu-16").values()["ctx"]


def test_an_unknown_profile() -> None:
    assert "did you mean 'cpu-16'?" in fault({"profile": "cpu16"})


def test_auto_takes_the_profile_of_the_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homespec.config.sources.detect", lambda: Box("nvidia", 12 * GIB))
    assert load({"profile": "auto"}).ctx == named("nvidia-12").values()["ctx"]
    monkeypatch.setattr("homespec.config.sources.detect", lambda: Box("abacus", None))
    assert load({"profile": "auto"}).ctx == "auto"


def test_every_value_has_an_origin(write_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_config("slots = 5\nprofile = 'cpu-8'")
    monkeypatch.setenv("HOMESPEC_MAX_QUEUE", "7")
    monkeypatch.setenv("HOMESPEC_API_KEY", "sk-secret")
    layers = load_layers({"port": 1})
    assert set(layers.origins) == set(Settings.model_fields)
    assert str(layers.origins["slots"]) == f"file {path}"
    assert str(layers.origins["max_queue"]) == "environment HOMESPEC_MAX_QUEUE"
    assert str(layers.origins["port"]) == "flag --port"
    assert str(layers.origins["ctx"]).startswith("profile cpu-8: ")
    assert str(layers.origins["threads"]) == "default"


def test_the_report_can_be_read_back(write_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_config("allowed_hosts = ['box lan', 'b']\nmmap = false\nmodel = '/m/ü \\\\ x.gguf'")
    monkeypatch.setenv("HOMESPEC_API_KEY", "sk-secret")
    layers = load_layers({})
    for text in (as_text(layers), as_text(layers, with_origin=True)):
        assert "sk-secret" not in text
        read = tomllib.loads(text)
        read.pop("api_key")
        for key, value in read.items():
            given = getattr(layers.settings, key)
            assert value == (list(given) if isinstance(given, tuple) else given), key
    assert "# file " not in as_text(layers)
    assert "sk-secret" not in as_json(layers)
    assert json.loads(as_json(layers))["mmap"] == {"value": False, "layer": "file", "where": str(path)}


def test_the_example_has_every_key_with_its_meaning_and_its_default(home: Path) -> None:
    assert meanings().keys() == Settings.model_fields.keys(), "each field needs a line of text under it"
    path = home / "example.toml"
    path.write_text(example())
    assert load({}, path) == load({})
    uncommented = re.sub(r"^#(?=\w+ = )", "", example(), flags=re.MULTILINE)
    values = tomllib.loads(uncommented)
    assert values.keys() == Settings.model_fields.keys() - {"api_key"}
    for key, value in values.items():
        if key not in SAMPLES:
            assert value == Settings.model_fields[key].default, key


def test_samples_are_values_that_would_be_taken(home: Path) -> None:
    (home / "keys").write_text("a-key")
    load({**SAMPLES, "api_key_file": home / "keys", "past_outputs_mib": 1})


@given(
    st.recursive(
        st.booleans() | st.integers(-(2**31), 2**31) | st.text(st.characters(codec="utf-8", exclude_characters="\x7f")),
        lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(st.characters(codec="ascii")), inner),
        max_leaves=8,
    )
)
def test_what_is_written_as_toml_is_read_back(value: Any) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, tuple) else value

    assert tomllib.loads(f"key = {toml(value)}")["key"] == plain(value)


def test_more_models_are_tables_or_only_paths(write_config: Any) -> None:
    write_config('[models]\none = "/one.gguf"\n[models.two]\npath = "/two.gguf"\nctx = 512\n')
    assert load({}).models == {"one": {"path": "/one.gguf"}, "two": {"path": "/two.gguf", "ctx": 512}}
    shown = tomllib.loads(as_text(load_layers({})))
    assert shown["models"] == load({}).models


def test_more_models_from_the_environment_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMESPEC_MODELS", '{"one": "/one.gguf"}')
    assert load({}).models == {"one": {"path": "/one.gguf"}}
    monkeypatch.setenv("HOMESPEC_MODELS", "one")
    assert fault({}).startswith("HOMESPEC_MODELS = 'one': not JSON (")
    monkeypatch.setenv("HOMESPEC_MODELS", '{"one": 5}')
    assert fault({}).endswith("one is 5; write a path, or a table with path")


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ('path = "/x.gguf"\nctxx = 512', "unknown key 'ctxx' in models.one; did you mean 'ctx'?"),
        ('path = "/x.gguf"\nport = 1', "unknown key 'port' in models.one"),
        ("ctx = 512", "models.one has no path"),
        ('path = "/x.gguf"\nctx = 5', "models.one.ctx = 5: "),
        ('path = "/x.gguf"\nkv_type = "q8_0"\nflash_attention = "off"', "needs flash attention"),
    ],
)
def test_a_fault_in_a_table_names_it(write_config: Any, table: str, complaint: str) -> None:
    write_config(f"[models.one]\n{table}\n")
    assert complaint in fault({})
