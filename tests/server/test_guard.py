"""Who may call: Host names, origins, API keys."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest

from tests.daemons import Daemon, running
from tests.kits.models import Models

pytestmark = pytest.mark.process

HI = [{"role": "user", "content": "Hi"}]
ENV_KEY, FILE_KEY, OTHER_FILE_KEY = "sk-canary-env-81f3", "sk-canary-file-5c22", "sk-canary-file-9b07"


def raw_get(daemon: Daemon, head: str) -> tuple[int, dict[str, Any]]:
    """Send a request head as it is; status and JSON body of the answer."""
    host, _, port = daemon.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    start, _, body = response.partition(b"\r\n\r\n")
    return int(start.split()[1]), json.loads(body) if body.startswith(b"{") else {}


def get_with_hosts(daemon: Daemon, *hosts: str) -> tuple[int, dict[str, Any]]:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    return raw_get(daemon, f"GET /v1/models HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")


class TestHostNames:
    """Without a key only names of this machine are served, so a web page cannot come in through its own name."""

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "localhost", "LOCALHOST:80", "[::1]", "[::1]:8642", "127.0.0.1:1", "box.lan", "NAS.lan:8642"],
    )
    def test_names_of_this_machine(self, demo: Daemon, host: str) -> None:
        status, body = get_with_hosts(demo, host)
        assert status == 200
        assert body["object"] == "list"

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "evil.example:8642",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example@localhost:x",
            "[::1",
            "[::2]",
            "box.lan.evil.example",
            "",
        ],
    )
    def test_other_names(self, demo: Daemon, host: str) -> None:
        status, body = get_with_hosts(demo, host)
        assert status == 403
        assert body["error"]["code"] == "host_not_allowed"
        assert "allowed_hosts" in body["error"]["message"]

    def test_two_host_lines(self, demo: Daemon) -> None:
        assert get_with_hosts(demo, "localhost", "evil.example")[0] in (400, 403)
        assert get_with_hosts(demo, "evil.example", "localhost")[0] in (400, 403)
        assert get_with_hosts(demo, "localhost", "localhost")[0] in (400, 403)

    def test_no_host_line(self, demo: Daemon) -> None:
        assert get_with_hosts(demo)[0] in (400, 403)
        assert raw_get(demo, "GET /v1/models HTTP/1.0\r\n\r\n")[0] == 403

    @pytest.mark.parametrize(
        "path", ["/health", "/status", "/events", "/metrics", "/v1/models", "/openapi.json", "/nope"]
    )
    def test_every_path_is_guarded(self, demo: Daemon, path: str) -> None:
        assert httpx.get(f"{demo.url}{path}", headers={"host": "evil.example"}).status_code == 403


class TestOrigins:
    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", None])
    @pytest.mark.parametrize("method", ["GET", "OPTIONS"])
    def test_no_page_is_let_in_by_default(self, demo: Daemon, origin: str | None, method: str) -> None:
        headers = {"access-control-request-method": "POST", **({"origin": origin} if origin else {})}
        response = httpx.request(method, f"{demo.url}/v1/models", headers=headers)
        assert [name for name in response.headers if name.startswith("access-control")] == []

    def test_configured_origins(self, models: Models, tmp_path: Path) -> None:
        allowed = "http://ui.lan:3000"
        with running(
            tmp_path, str(models.letters), environment={"HOMESPEC_CORS_ORIGINS": allowed}, wait=False
        ) as daemon:
            response = httpx.get(f"{daemon.url}/v1/models", headers={"origin": allowed})
            assert response.headers["access-control-allow-origin"] == allowed
            preflight = httpx.options(
                f"{daemon.url}/v1/chat/completions",
                headers={
                    "origin": allowed,
                    "access-control-request-method": "POST",
                    "access-control-request-headers": "content-type,authorization",
                },
            )
            assert preflight.status_code == 200
            response = httpx.get(f"{daemon.url}/v1/models", headers={"origin": "http://evil.example"})
            assert "access-control-allow-origin" not in response.headers
            # A refusal must be readable for the page as well.
            response = httpx.get(f"{daemon.url}/nope", headers={"origin": allowed})
            assert response.headers["access-control-allow-origin"] == allowed


@pytest.fixture(scope="module")
def locked(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that asks for a key; keys come from the environment and from a file."""
    folder = tmp_path_factory.mktemp("locked")
    keys = folder / "keys"
    keys.write_text(f"# the family\n{FILE_KEY}\n\n  {OTHER_FILE_KEY}  \n")
    with running(
        folder,
        str(models.letters),
        "--api-key-file",
        str(keys),
        "--log-level",
        "debug",
        environment={"HOMESPEC_API_KEY": ENV_KEY},
    ) as daemon:
        yield daemon


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


class TestKeys:
    @pytest.mark.parametrize("key", [ENV_KEY, FILE_KEY, OTHER_FILE_KEY])
    def test_each_key_opens(self, locked: Daemon, key: str) -> None:
        client = openai.OpenAI(base_url=f"{locked.url}/v1", api_key=key, max_retries=0)
        answer = client.completions.create(model="default", prompt="a", max_tokens=2, temperature=0)
        assert answer.choices[0].text == "bc"
        for headers in (bearer(key), {"authorization": f"bearer  {key}"}, {"x-api-key": key}):
            assert httpx.get(f"{locked.url}/status", headers=headers).status_code == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"authorization": "Bearer"},
            bearer("wrong"),
            bearer(f"{ENV_KEY}x"),
            bearer(ENV_KEY[:-1]),
            bearer("# the family"),
            bearer("schlüssel"),
            {"authorization": f"Basic {ENV_KEY}"},
            {"authorization": ENV_KEY},
            {"x-api-key": "wrong"},
        ],
    )
    @pytest.mark.parametrize("path", ["/v1/models", "/status", "/events", "/metrics", "/openapi.json", "/nope"])
    def test_nothing_else_does(self, locked: Daemon, path: str, headers: dict[str, str]) -> None:
        encoded = {name.encode(): value.encode() for name, value in headers.items()}
        response = httpx.get(f"{locked.url}{path}", headers=encoded)
        assert response.status_code == 401
        error = response.json()["error"]
        assert error["type"] == "authentication_error"
        assert error["code"] == "invalid_api_key"
        assert error["param"] is None
        assert "Bearer" in error["message"]

    def test_the_client_raises_its_own_error(self, locked: Daemon) -> None:
        client = openai.OpenAI(base_url=f"{locked.url}/v1", api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()

    def test_health_is_open_and_any_name_may_ask(self, locked: Daemon) -> None:
        for host in ("localhost", "box.lan", "evil.example"):
            assert httpx.get(f"{locked.url}/health", headers={"host": host}).status_code == 200
        assert httpx.get(f"{locked.url}/v1/models", headers={"host": "box.lan", **bearer(ENV_KEY)}).status_code == 200

    def test_a_wrong_key_comes_before_everything_else(self, locked: Daemon) -> None:
        for content in (b"{", json.dumps({"messages": HI, "model": "gpt-9"}).encode()):
            response = httpx.post(f"{locked.url}/v1/chat/completions", content=content, headers=bearer("wrong"))
            assert response.status_code == 401

    def test_keys_are_on_no_command_line_and_in_no_log(self, locked: Daemon) -> None:
        httpx.get(f"{locked.url}/v1/models", headers=bearer(ENV_KEY))
        httpx.get(f"{locked.url}/v1/models", headers=bearer("sk-canary-wrong"))
        lines = [b" ".join(part.encode(errors="replace") for part in command_line(each)) for each in processes()]
        assert any(b"homespec" in line for line in lines)
        for key in (ENV_KEY, FILE_KEY, OTHER_FILE_KEY, "sk-canary-wrong"):
            assert not [line for line in lines if key.encode() in line]
            assert key not in locked.log()
        assert "$HOMESPEC_API_KEY" in locked.log()  # the hint shows how, not what
        for path in ("/health", "/status", "/metrics"):
            assert "canary" not in httpx.get(f"{locked.url}{path}", headers=bearer(ENV_KEY)).text

    def test_prefixes_are_not_shared_between_keys(self, locked: Daemon) -> None:
        """How fast an answer comes must not tell what others have asked."""

        def cached(key: str) -> int:
            body = {"prompt": "my secret diary " * 10, "max_tokens": 1}
            response = httpx.post(f"{locked.url}/v1/completions", json=body, headers=bearer(key))
            return int(response.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

        assert cached(ENV_KEY) == 0
        assert cached(ENV_KEY) > 100
        assert cached(FILE_KEY) == 0


def processes() -> list[psutil.Process]:
    return list(psutil.process_iter())


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class TestExposure:
    """An address beyond loopback is served with a key, or when asked for in so many words; refusals are in test_cli."""

    def test_with_a_key(self, models: Models, tmp_path: Path) -> None:
        flags = (str(models.letters), "--host", "0.0.0.0")
        with running(tmp_path, *flags, environment={"HOMESPEC_API_KEY": ENV_KEY}, wait=False) as daemon:
            url = daemon.url.replace("0.0.0.0", "127.0.0.1")
            assert httpx.get(f"{url}/v1/models").status_code == 401
            assert httpx.get(f"{url}/v1/models", headers=bearer(ENV_KEY)).status_code == 200

    def test_insecure(self, models: Models, tmp_path: Path) -> None:
        flags = (str(models.letters), "--host", "0.0.0.0", "--insecure")
        with running(tmp_path, *flags, wait=False) as daemon:
            url = daemon.url.replace("0.0.0.0", "127.0.0.1")
            assert httpx.get(f"{url}/v1/models", headers={"host": "anything.lan"}).status_code == 200
