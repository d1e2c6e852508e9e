"""A Hugging Face hub of one's own: a repository's files over HTTP, with range requests and faults on demand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "c" * 40


@dataclass
class Hub:
    """What the server has, and what it was asked for."""

    url: str = ""
    repositories: dict[str, dict[str, Path]] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    """Body bytes after which the next downloads are cut, one entry each."""
    wrong_sha256: str | None = None
    claimed_size: int | None = None
    gated: bool = False
    ranges: list[str | None] = field(default_factory=list)
    """The Range header of each download."""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._serve(with_body=False)

    def do_GET(self) -> None:
        self._serve(with_body=True)

    def _serve(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        if self.hub.gated:
            return self._fail(403, "GatedRepo")
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?", path):
            files = self.hub.repositories.get(match[1])
            return self._listing(match[1], files) if files is not None else self._fail(404, "RepoNotFound")
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            file = self.hub.repositories.get(match[1], {}).get(match[2])
            return self._file(file, with_body) if file is not None else self._fail(404, "EntryNotFound")
        return self._fail(404, "RepoNotFound")

    def _listing(self, repository: str, files: dict[str, Path]) -> None:
        siblings = [
            {
                "rfilename": name,
                "size": self.hub.claimed_size or path.stat().st_size,
                "blobId": "b",
                "lfs": {"sha256": self._sha256(path), "size": path.stat().st_size, "pointerSize": 130},
            }
            for name, path in files.items()
        ]
        body = json.dumps({"id": repository, "modelId": repository, "sha": COMMIT, "siblings": siblings}).encode()
        self._send(200, body, {"Content-Type": "application/json"})

    def _file(self, path: Path, with_body: bool) -> None:
        data = path.read_bytes()
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{self._sha256(path)}"', "Accept-Ranges": "bytes"}
        if not with_body:
            self.send_response(200)
            self._headers({**headers, "Content-Length": str(len(data))})
            return
        wanted = self.headers.get("Range")
        self.hub.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(206 if wanted else 200, data[start:], headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        self._headers({**headers, "Content-Length": str(len(body))})
        if self.hub.cuts and "ETag" in headers:
            self.wfile.write(body[: self.hub.cuts.pop(0)])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def _headers(self, headers: dict[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _fail(self, status: int, code: str) -> None:
        self.send_response(status)
        self._headers({"X-Error-Code": code, "X-Error-Message": code, "Content-Length": "0"})

    def _sha256(self, path: Path) -> str:
        return self.hub.wrong_sha256 or hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
