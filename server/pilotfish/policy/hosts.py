"""Recognises addresses of this machine and the local network from the text of a URL alone.

A public name that resolves to such an address is not recognised here: the code that fetches it checks the
resolved address.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_LOCAL_SUFFIXES = (
    ".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".home.arpa", ".corp",
    ".private", ".test", ".onion", ".svc", ".cluster.local",
    # Public names that resolve to the address in their own name, or to this machine.
    ".nip.io", ".sslip.io", ".xip.io", ".localtest.me", ".lvh.me", ".vcap.me", ".lacolhost.com",
)  # fmt: skip
_LOCAL_NAMES = frozenset(name[1:] for name in _LOCAL_SUFFIXES)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def host_of(url: str) -> str | None:
    """Return the host of a URL in lower case. None if the URL has no host or is ambiguous."""
    if any(char.isspace() or char == "\\" or ord(char) < 32 for char in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme.lower() not in {"http", "https", "ftp", "ws", "wss"} or not host:
        return None
    try:
        # The resolver uses the ASCII form, so rules and users see it too.
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    return name.lower().rstrip(".") or None


def local_address(host: str) -> str | None:
    """Return why a host from `host_of` is on this machine or the local network. None if it is not."""
    name = host.lower().rstrip(".").split("%", 1)[0]
    address = _address(name)
    if address is not None:
        mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
        for one in (address, mapped):
            # Reserved IPv6 addresses have an IPv4 address inside, which a gateway may use.
            if one is not None and (not one.is_global or one.is_multicast or one.is_reserved):
                return f"{one} is an address of this machine or the local network"
        return None
    if name in _LOCAL_NAMES or name.endswith(_LOCAL_SUFFIXES):
        return f"{name} is a name of this machine or the local network"
    if "." not in name:
        return f"{name} is a name on the local network"
    return None


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        pass
    # inet_aton also accepts 127.1, 0x7f000001, 017700000001 and 2130706433.
    parts = name.split(".")
    if not 1 <= len(parts) <= 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    value = 0
    for number in numbers[:-1]:
        if number > 255:
            return None
        value = value * 256 + number
    room = 256 ** (5 - len(numbers))
    if numbers[-1] >= room:
        return None
    return ipaddress.IPv4Address(value * room + numbers[-1])


def _number(text: str) -> int:
    if text.lower().startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
