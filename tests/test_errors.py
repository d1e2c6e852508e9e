from __future__ import annotations

import inspect
import re

import pytest

from homespec import errors
from homespec.errors import ErrorInfo, ExitCode, HomespecError, KvCacheFull, ModelCorrupt, RequestError


def classes() -> dict[str, type[HomespecError]]:
    return {
        name: member
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, HomespecError) and member.__module__ == errors.__name__
    }


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert errors.__doc__ is not None
    drawn = re.findall(r"^([│ ]*(?:├── |└── )?)([A-Z]\w+) {2,}", errors.__doc__, re.MULTILINE)
    parents: dict[int, str] = {}
    for indent, name in drawn:
        depth = len(indent) // 4
        parents[depth] = name
        parent = parents[depth - 1] if depth else "Exception"
        assert [base.__name__ for base in classes()[name].__bases__] == [parent]
    assert {name for _, name in drawn} == set(classes())


def test_exit_codes_are_distinct_and_every_error_has_one() -> None:
    assert len({code.value for code in ExitCode}) == len(ExitCode)
    assert ExitCode.OK.value == 0
    assert all(error.exit_code in ExitCode and error.exit_code != ExitCode.OK for error in classes().values())
    assert ModelCorrupt.exit_code == ExitCode.MODEL
    assert KvCacheFull.exit_code == ExitCode.FAILURE


def test_a_request_error_carries_what_the_client_is_told() -> None:
    error = RequestError("too long", status=413, param="prompt", code="too_long", retry_after_s=3)
    assert str(error) == "too long"
    assert error.info == ErrorInfo("too long", 413, "invalid_request_error", "prompt", "too_long", 3)
    assert RequestError("plain").info == ErrorInfo("plain", 400)


def test_a_request_error_survives_the_way_through_its_info() -> None:
    info = ErrorInfo("busy", 503, "server_error", None, "queue_full", 2)
    assert RequestError.of(info).info is info
    with pytest.raises(RequestError, match="busy"):
        raise RequestError.of(info)


def test_an_unknown_field_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError):
        RequestError("message", statuss=400)
