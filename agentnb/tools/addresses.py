"""Which addresses a page may be fetched from: those of the public internet, and nothing of this machine or its network.

A name is resolved once, every address behind it is looked at, and the connection goes to one that was looked at, so a
name that resolves differently a moment later leads nowhere else.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from agentnb.errors import ToolError
from agentnb.text import shorten

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]

_EMBEDDING = {
    ip_network("64:ff9b::/96"): 0,
    ip_network("64:ff9b:1::/48"): 0,
    ip_network("::/96"): 0,
    ip_network("2002::/16"): 80,
}
"""IPv6 networks whose addresses lead to an IPv4 address inside them, and how far from the right its bits stand."""
_NEVER = [
    ip_network(each) for each in ("168.63.129.16/32", "100.64.0.0/10", "192.88.99.0/24", "fec0::/10", "5f00::/16")
]
"""Not public in truth, whatever the registry says: a cloud's metadata service, carriers' networks, relays."""


def resolved(host: str, port: int) -> list[str]:
    """Every address of a name, by the system's resolver; numbers in any of their spellings are addresses, too.

    Raises:
        OSError: There is none.
    """
    return list(dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


def allowed_networks(allow: Sequence[str]) -> list[IPv4Network | IPv6Network]:
    """Addresses and networks, such as "127.0.0.1" and "10.1.0.0/16", that may be reached although they are private."""
    return [ip_network(each) for each in allow]


def checked(host: str, port: int, resolve: Resolve, allow: Sequence[IPv4Network | IPv6Network]) -> tuple[str, ...]:
    """The addresses behind a host, all of which may be reached.

    Raises:
        ToolError: One may not be, or there is none.
    """
    try:
        found = [ip_address(each.partition("%")[0]) for each in resolve(host, port)]
    except (OSError, ValueError) as error:
        raise ToolError(f"the host {shorten(host)!r} can't be found") from error
    for address in found:
        if not (is_public(address) or any(address in each for each in allow if each.version == address.version)):
            raise ToolError(
                f"{shorten(host)!r} is at {address}, which is not on the public internet: it is not fetched"
            )
    if not found:
        raise ToolError(f"the host {shorten(host)!r} can't be found")
    return tuple(map(str, found))


def is_public(address: Address) -> bool:
    """Whether anybody on the internet can reach it, so that fetching it shows nothing that is only seen from here."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or _embedded(address)
        if inner is not None:
            return is_public(inner)
    if (
        address.is_multicast
        or address.is_reserved
        or any(address in each for each in _NEVER if each.version == address.version)
    ):
        return False
    return address.is_global


def _embedded(address: IPv6Address) -> IPv4Address | None:
    for network, shift in _EMBEDDING.items():
        if address in network:
            return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None
