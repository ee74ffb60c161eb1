"""The tool `fetch_page`: one page of the public internet as readable text, bounded in size, time and reach.

    URL ──▶ http(s)? ──▶ resolve, check every address ──▶ connect to a checked one ──▶ redirect? ──▶ the same again
                                                                                  └──▶ at most 2 MB ──▶ text

Addresses of this machine and its networks are refused, whatever name or spelling leads there (`addresses.py`). Nothing
of the environment is used: no proxy, no cookies, no passwords. `page_fetcher(allow=["127.0.0.1"])` opens single ones.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.errors import ToolDefinitionError, ToolError
from agentnb.text import shorten
from agentnb.threads import run_in_thread
from agentnb.tools.addresses import Resolve, allowed_networks, checked, resolved
from agentnb.tools.charset import codec
from agentnb.tools.page_text import page_text
from agentnb.tools.quoted import label
from agentnb.tools.tool import Tool, ToolOptions

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 2_000_000
"""Of one page, unpacked."""
MOST_REDIRECTS = 5
_MOST_ADDRESSES = 4
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 15.0
_ALL_SECONDS = 30.0
_PORTS = {"http": 80, "https": 443}
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_TEXTS = ("text/", "application/json", "application/xml", "application/xhtml", "application/javascript")


def page_fetcher(*, allow: Sequence[str] = (), resolve: Resolve = resolved) -> Tool:
    """A `fetch_page` that may also reach some addresses that are not public.

    Args:
        allow: Addresses or networks, such as "127.0.0.1" or "10.1.0.0/16"; there every port may be used.
        resolve: Turns a host and a port into its addresses.

    Raises:
        ToolDefinitionError: `allow` holds something else.
    """
    try:
        networks = allowed_networks(allow)
    except ValueError as error:
        what = f"allow={list(allow)!r}, expected addresses or networks"
        raise ToolDefinitionError(what, remedy='allow=["127.0.0.1"]') from error

    async def fetch(url: str) -> str:
        """Fetch a page of the internet and read its text.

        Args:
            url: With http:// or https:// before it.
        """
        page = await _fetched(url, lambda host, port: checked(host, port, resolve, networks), bool(networks))
        return await run_in_thread(_told, page)  # type: ignore[no-any-return]

    about = "Fetch a page of the internet and read its text, with the addresses of its links."
    return Tool(fetch, ToolOptions("fetch_page", about, timeout=_ALL_SECONDS, quoted=True))


fetch_page = page_fetcher()
"""Pages of the public internet alone."""


class _Page(NamedTuple):
    url: str
    kind: str
    """The content type, in lower case."""
    body: bytes
    cut: bool


async def _fetched(url: str, check: Any, any_port: bool) -> _Page:
    """Follow the redirects, each checked like the first."""
    import httpx

    for _ in range(MOST_REDIRECTS + 1):
        target = _parsed(url, any_port)
        host = target.raw_host.decode("ascii")
        addresses = await run_in_thread(check, host, target.port or _PORTS[target.scheme])
        try:
            found = await _first(target, addresses)
        except httpx.HTTPError as error:
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise ToolError(f"{shorten(url, 200)} can't be fetched: {why}") from error
        if isinstance(found, _Page):
            return found
        url = str(target.join(found))
    raise ToolError(f"more than {MOST_REDIRECTS} redirects, the last to {shorten(url, 200)}")


def _parsed(url: str, any_port: bool) -> httpx.URL:
    """The address of a page.

    Raises:
        ToolError: It is no http(s) address, holds a password, or names a port where no web pages are.
    """
    import httpx

    try:
        parsed = httpx.URL(url.strip())
    except (httpx.InvalidURL, ValueError, UnicodeError) as error:
        raise ToolError(f"{shorten(url, 200)!r} is no address of a page: {error}") from error
    if parsed.scheme not in _PORTS or not parsed.host:
        raise ToolError(f"{shorten(url, 200)!r} is not fetched: only http:// and https:// addresses are")
    if parsed.userinfo:
        raise ToolError("an address with a user name or password in it is not fetched")
    port = parsed.port or _PORTS[parsed.scheme]
    if port < 1024 and port not in _PORTS.values() and not any_port:
        raise ToolError(f"port {port} is not one of web pages: it is not fetched")
    return parsed


async def _first(url: httpx.URL, addresses: Sequence[str]) -> _Page | str:
    """The answer at the first address where somebody listens."""
    import httpx

    *others, last = addresses[:_MOST_ADDRESSES]
    for address in others:
        try:
            return await _one(url, address)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue
    return await _one(url, last)


async def _one(url: httpx.URL, address: str) -> _Page | str:
    """One answer of a server, asked at this very address: a page, or where it redirects to."""
    import httpx

    headers = {"Host": url.netloc.decode("ascii"), "Accept": "text/html, text/*;q=0.9, */*;q=0.5"}
    headers |= {"Accept-Encoding": "identity", "User-Agent": "Mozilla/5.0 (compatible; agentnb)"}
    timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    there = url.copy_with(host=address)
    async with (
        httpx.AsyncClient(verify=_tls(), trust_env=False, timeout=timeout, follow_redirects=False) as client,
        client.stream("GET", there, headers=headers, extensions={"sni_hostname": url.raw_host.decode()}) as reply,
    ):
        if reply.has_redirect_location:
            return reply.headers["location"]
        kind = reply.headers.get("content-type", "text/html").lower()
        body, cut = await _body(reply)
    if reply.status_code >= 400:
        said = page_text(_decoded(body[:20_000], kind), str(url))[1]
        said = f"{reply.reason_phrase}: {said}"
        raise ToolError(f"the server answered {reply.status_code} and says {label(said, 300)}")
    if not kind.startswith(_TEXTS):
        raise ToolError(f"{shorten(str(url), 200)} is {shorten(kind, 60)}, not a page of text")
    return _Page(str(url), kind, body, cut)


@cache
def _tls() -> SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=False)


async def _body(reply: httpx.Response) -> tuple[bytes, bool]:
    """The body, unpacked, at most MOST_BYTES of it; a small packet that unpacks to a huge one is cut as well."""
    packing = reply.headers.get("content-encoding", "identity").lower().strip()
    if packing not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ToolError(f"the server packed the page as {shorten(packing)}, though it was asked not to")
    unpack = None if packing in ("identity", "") else zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    try:
        async for chunk in reply.aiter_raw():
            body += chunk if unpack is None else unpack.decompress(chunk, MOST_BYTES + 1 - len(body))
            if len(body) > MOST_BYTES:
                return bytes(body[:MOST_BYTES]), True
    except zlib.error as error:
        raise ToolError(f"the page can't be unpacked: {error}") from error
    return bytes(body), False


def _told(page: _Page) -> str:
    text, title = _decoded(page.body, page.kind), ""
    if "html" in page.kind:
        title, text = page_text(text, page.url)
    cut = f"(the first {MOST_BYTES:,} bytes)" if page.cut else ""
    head = "\n".join(filter(None, [page.url, title and f"Title: {title}", cut]))
    return f"{head}\n\n{text or '(no text)'}"


def _decoded(body: bytes, kind: str) -> str:
    """By the header's character set, the page's own, or UTF-8; what does not fit becomes U+FFFD."""
    found = _CHARSET.search(kind.encode()) or _CHARSET.search(body[:2_000])
    try:
        return body.decode(codec(found[1].decode("ascii")) if found else "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")
