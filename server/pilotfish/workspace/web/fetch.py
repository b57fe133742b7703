"""Fetches web pages, never from this machine or its private network unless allowed.

Every address a name resolves to is checked, and the one that was checked is the one connected to. A redirect is a new
request and is checked as one; it is followed only on the same site, since what was allowed was that site. Size and time
are bounded, compressed bodies by what they unpack to.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import functools
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pilotfish.errors import Refused, ToolError
from pilotfish.workspace.process.output_spool import decoded

if TYPE_CHECKING:
    import ssl

    import httpcore2
    import httpx2

MAX_BYTES = 5_000_000
MAX_SECONDS = 30.0
MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
USER_AGENT = "Mozilla/5.0 (compatible; Pilotfish; +https://github.com/pilotfish)"

_TEXT_TYPE = re.compile(
    r"text/|application/(?:.*\+)?(?:json|xml|yaml|toml|javascript|ecmascript|typescript|x-sh|sql|graphql|x-ndjson)\b"
    r"|application/(?:x-yaml|x-javascript|x-httpd-php|x-tex|rtf)|message/|image/svg\+xml"
)
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """What was fetched. `is_html` is true if `text` is a page to be turned into Markdown."""

    url: str
    status: int
    content_type: str
    text: str
    is_html: bool
    cut: bool
    """there was more than `MAX_BYTES`"""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The page is on another site: to be fetched, and judged, by its own address."""

    url: str


async def fetch(url: str, *, local_network: bool = False) -> WebPage | Elsewhere:
    """Fetch a page by GET. With `local_network` this machine and its network may be reached as well."""
    import httpx2

    try:
        async with asyncio.timeout(MAX_SECONDS):
            return await _follow(_checked_url(url), local_network=local_network)
    except TimeoutError:
        raise ToolError(f"{url} did not answer within {MAX_SECONDS:.0f} s") from None
    except httpx2.TimeoutException:
        raise ToolError(f"{url} did not answer in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ToolError(f"{url} could not be fetched: {str(error) or type(error).__name__}") from error
    except OSError as error:  # a name that is not found, a certificate that does not fit
        raise ToolError(f"{url} could not be fetched: {error}") from error


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, whatever it is wrapped in."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _checked_url(text: str) -> httpx2.URL:
    import httpx2

    try:
        url = httpx2.URL(text.strip())
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        raise ToolError(f"{text!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(f"{text!r} is not a web address; it must begin with http:// or https://")
    if url.userinfo:
        raise Refused("URLs that contain a user name or password are not fetched")
    return url.copy_with(fragment=None)


async def _follow(url: httpx2.URL, *, local_network: bool) -> WebPage | Elsewhere:
    import httpx2

    async with httpx2.AsyncClient(
        transport=await _transport(url, local_network=local_network),
        headers={"User-Agent": USER_AGENT, "Accept": "text/markdown,text/html;q=0.9,text/*;q=0.8,*/*;q=0.5"},
        timeout=httpx2.Timeout(MAX_SECONDS, connect=CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
    ) as client:
        for _ in range(MAX_REDIRECTS + 1):
            async with client.stream("GET", url) as response:
                if not response.has_redirect_location:
                    return await _read(response, url)
                target = _checked_url(str(url.join(response.headers["location"])))
            if not _same_site(url, target):
                return Elsewhere(str(target))
            url = target
    raise ToolError(f"{url} redirects more than {MAX_REDIRECTS} times")


def _same_site(one: httpx2.URL, other: httpx2.URL) -> bool:
    hosts = {url.host.lower().removeprefix("www.") for url in (one, other)}
    downgrade = one.scheme == "https" and other.scheme == "http"
    moved_port = one.port != other.port and {one.port, other.port} - {None, 80, 443}
    return len(hosts) == 1 and not downgrade and not moved_port


async def _read(response: httpx2.Response, url: httpx2.URL) -> WebPage:
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = bytearray()
    async for chunk in response.aiter_bytes(1 << 16):
        body += chunk
        if len(body) > MAX_BYTES:
            break
    data = bytes(body[:MAX_BYTES])
    is_html = content_type in ("text/html", "application/xhtml+xml") or _looks_like_html(data, content_type)
    if not is_html and not _is_text(data, content_type):
        size = response.headers.get("content-length") or len(data)
        raise ToolError(f"{url} is {content_type or 'binary data'} of {size} bytes, not text; bash can download it")
    return WebPage(
        url=str(url),
        status=response.status_code,
        content_type=content_type,
        text=_decode(data, response.charset_encoding),
        is_html=is_html,
        cut=len(body) > MAX_BYTES,
    )


def _looks_like_html(data: bytes, content_type: str) -> bool:
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return content_type in ("", "application/octet-stream") and start.startswith((b"<!doctype html", b"<html"))


def _is_text(data: bytes, content_type: str) -> bool:
    if _TEXT_TYPE.match(content_type):
        return True
    if content_type not in ("", "application/octet-stream", "binary/octet-stream"):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data[:8192])
    except UnicodeDecodeError:
        return False
    return b"\0" not in data[:8192]


def _decode(data: bytes, charset: str | None) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if charset is None and (found := _META_CHARSET.search(data[:4096])):
        charset = found[1].decode("ascii", "replace")
    if charset is not None and charset.lower().replace("_", "-") not in ("utf-8", "utf8", "ascii", "us-ascii"):
        with contextlib.suppress(LookupError, UnicodeError, ValueError):  # no such encoding, or none for text
            return data.decode(charset, "replace")
    return decoded(data.removeprefix(codecs.BOM_UTF8))


async def _transport(url: httpx2.URL, *, local_network: bool) -> httpx2.AsyncBaseTransport:
    import httpx2

    proxy = _proxy_for(url)
    if proxy is None:
        return _guarded_transport(local_network=local_network)
    # A proxy resolves the name itself: what can be known of it here is checked here.
    if not local_network:
        with contextlib.suppress(socket.gaierror):
            await _resolve(url.host, url.port or 443)
    return httpx2.AsyncHTTPTransport(verify=_ssl_context(), proxy=proxy)


def _proxy_for(url: httpx2.URL) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(url.host):
        return None
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    return found if found and found.startswith(("http://", "https://")) else None


async def _resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, all of them public."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
    private = [address for address in addresses if not is_public(address)]
    if private:
        raise Refused(f"{host} is {private[0]}, on this machine or its private network; it was not fetched")
    return addresses


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Reading the certificates takes longer than most fetches."""
    import httpx2

    return httpx2.create_ssl_context()


def _guarded_transport(*, local_network: bool) -> httpx2.AsyncBaseTransport:
    """httpx's transport, over connections that go only where they were checked to go."""
    import httpcore2
    import httpx2

    class Guard(httpcore2.AsyncNetworkBackend):
        def __init__(self) -> None:
            self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            addresses = [host] if local_network else await _resolve(host, port)
            for address in addresses:
                try:
                    return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
                except httpcore2.ConnectError:
                    if address == addresses[-1]:
                        raise
            raise httpcore2.ConnectError(f"{host} has no address")

        async def connect_unix_socket(
            self,
            path: str,
            timeout: float | None = None,
            socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            del path, timeout, socket_options
            raise Refused("web_fetch does not open Unix sockets")

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    context = _ssl_context()
    transport = httpx2.AsyncHTTPTransport(verify=context)
    pool = httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=Guard())
    transport._pool = pool  # noqa: SLF001 - httpx has no parameter for the backend; its pool has
    return transport
