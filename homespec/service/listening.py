"""The sockets that the daemon listens on."""

from __future__ import annotations

import logging
import socket

from homespec.errors import AddressInUse

logger = logging.getLogger("homespec.daemon")

_BACKLOG = 128


def listen(host: str | None, port: int) -> list[socket.socket]:
    """Take the port on an address, or on both loopbacks when `host` is None. Raises AddressInUse."""
    return _bind_loopbacks(port) if host is None else [_bind(host, port)]


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise AddressInUse(f"host {host!r} cannot be resolved: {error.strerror}; pass an address as --host") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise AddressInUse(
            f"port {port} on {host} cannot be taken: {error.strerror}; stop what uses it or pass another --port"
        ) from error
    return sock


def _bind_loopbacks(port: int) -> list[socket.socket]:
    """127.0.0.1, and ::1 on the same port where the machine has IPv6: clients resolve localhost to either."""
    sockets = [_bind("127.0.0.1", port)]
    chosen = sockets[0].getsockname()[1]
    if socket.has_ipv6:
        try:
            sockets.append(_bind("::1", chosen))
        except AddressInUse as error:
            logger.info("IPv6 loopback is not served: %s", error)
    return sockets
