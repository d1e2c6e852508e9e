"""The sockets that the daemon listens on."""

from __future__ import annotations

import errno
import logging
import socket
import sys

from homespec.errors import AddressInUse

logger = logging.getLogger("homespec.daemon")

BACKLOG = 128
_FREEBIND = (
    {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
    if sys.platform == "linux"
    else {}
)
"""IP_FREEBIND and IPV6_FREEBIND of Linux's in.h and in6.h, which Python does not name."""
_REMEDIES = {
    errno.EADDRNOTAVAIL: "pass an address of this machine as --host, or 0.0.0.0 for all of them",
    errno.EACCES: "pass a --port above 1023",
}


def listen(host: str | None, port: int, *, early: bool = False) -> list[socket.socket]:
    """Take the port on an address, or on both loopbacks when `host` is None. Raises AddressInUse.

    early: an address that this machine does not have is taken all the same, where the system can: at boot a network may
    come up later than its services.
    """
    return _bind_loopbacks(port) if host is None else [_bind(host, port, early=early)]


def _bind(host: str, port: int, *, early: bool = False) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise AddressInUse(f"host {host!r} cannot be resolved: {error.strerror}; pass an address as --host") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            sock.bind(address)
        except OSError as error:
            if not early or error.errno != errno.EADDRNOTAVAIL or family not in _FREEBIND:
                raise
            sock.setsockopt(*_FREEBIND[family], 1)
            sock.bind(address)
            logger.warning("%s is not an address of this machine; it is served as soon as it is one", host)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        remedy = _REMEDIES.get(error.errno or 0, "stop what uses it or pass another --port")
        raise AddressInUse(f"port {port} on {host} cannot be taken: {error.strerror}; {remedy}") from error
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
