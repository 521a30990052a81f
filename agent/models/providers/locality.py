"""Which addresses a local profile may be connected to, whatever a name resolves to.

What is sent to a local model must stay on this machine, or on one that the owner named in ``models.local_hosts``. The
words of ``config.toml`` make a profile local; this module holds the connection to it: a name that points elsewhere
today (a changed DNS, a foreign network's search domain, an edited hosts file) is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from agent.profile_intent import is_loopback

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def may_connect(host: str, address: str, local_hosts: Collection[str]) -> bool:
    """Return whether a local profile may be connected to ``address``, which is what ``host`` stands for right now.

    Loopback always; an address that the owner named itself; and the address of a host that the owner named, unless it
    is one of the public internet: a machine of the owner's own that has such an address is named by it.
    """
    try:
        ip = _plain(address)
    except ValueError:
        return False
    if ip.is_loopback:
        return True
    host = host.lower().rstrip(".").strip("[]")
    if is_loopback(host):
        return False
    named = {each.lower().strip("[]") for each in local_hosts}
    if any(_same(ip, each) for each in named):
        return True
    return host in named and not ip.is_global and not ip.is_multicast and not ip.is_unspecified


def in_order(addresses: Iterable[str]) -> list[str]:
    """Return the addresses, each once, IPv4 of loopback first.

    Model servers listen on 127.0.0.1, and Windows takes two seconds to say that nothing listens on ::1.
    """
    return sorted(dict.fromkeys(addresses), key=lambda each: not each.startswith("127."))


def _plain(address: str) -> _Address:
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    return ip


def _same(ip: _Address, named: str) -> bool:
    try:
        return _plain(named) == ip
    except ValueError:
        return False
