"""Fetching pages: what is read, what is bounded, and every way to an inner address that was tried."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, ClassVar

import pytest
from fakes import unquoted
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.core.messages import ToolCall
from agentnb.errors import ToolDefinitionError
from agentnb.tools.addresses import is_public
from agentnb.tools.fetch import MOST_BYTES, fetch_page, page_fetcher
from agentnb.tools.page_text import page_text

pytestmark = pytest.mark.slow

NAMES = {
    "inner.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "mixed.test": ["93.184.216.34", "10.0.0.7"],
    "six.test": ["::ffff:10.0.0.1"],
    "scoped.test": ["fe80::1%eth0"],
    "nothing.test": [],
}


def lookup(host: str, port: int) -> list[str]:
    """The resolver of these tests: names from the table, numbers by the system."""
    from agentnb.tools.addresses import resolved

    return NAMES[host] if host in NAMES else resolved(host, port)


def fetched(url: str, tool: Any = fetch_page) -> Any:
    """The result of one call."""
    return unquoted(asyncio.run(tool.answer(ToolCall("c1", "fetch_page", json.dumps({"url": url})))))


# ── ways inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

REFUSED = [
    "http://127.0.0.1/", "http://127.0.0.1:8888/api/contents", "http://127.1/", "http://127.000.000.001/",
    "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/", "http://2130706433/", "http://017700000001/",
    "http://0/", "http://0.0.0.0/", "http://localhost/", "http://LOCALHOST./", "http://[::1]/", "http://[::]/",
    "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/", "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::10.0.0.1]/", "http://[2002:7f00:1::]/", "http://[2002:a00:1::]/", "http://[fe80::1]/",
    "http://[fc00::1]/", "http://[fd00:ec2::254]/latest/meta-data/", "http://[ff02::1]/", "http://[fec0::1]/",
    "http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.1.1/admin",
    "http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/v2/credentials", "http://100.100.100.200/",
    "http://168.63.129.16/", "http://192.0.0.192/", "http://224.0.0.1/", "http://255.255.255.255/", "http://240.0.0.1/",
    "http://198.18.0.1/", "http://192.0.2.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/",
    "http://inner.test/", "https://inner.test:8443/", "http://metadata.test/", "http://mixed.test/", "http://six.test/",
    "http://scoped.test/", "http://nothing.test/",
    "http://inner.test@127.0.0.1/", "http://user:password@93.184.216.34/",
    "http://93.184.216.34:22/", "http://93.184.216.34:25/", "https://93.184.216.34:995/",
    "file:///etc/passwd", "ftp://93.184.216.34/", "gopher://127.0.0.1:6379/_INFO", "data:text/html,x", "javascript:1",
    "//127.0.0.1/", "http:///etc/passwd", "http://", "", "not a url", "http://[::1", "http://a\nb/", "http://\0/",
    "unix:///var/run/docker.sock", "HTTP+UNIX://%2Fvar%2Frun%2Fdocker.sock/info",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_no_spelling_leads_inside(url):
    """Each address of this machine, its networks or another protocol is refused in words, without a connection."""
    result = fetched(url, page_fetcher(resolve=lookup))

    assert result.status == "error"
    assert "can't be fetched" not in result.content


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8", "2002:808:808::1"]
)
def test_public_addresses_pass(text):
    """Those of the internet, also inside an IPv6 address."""
    assert is_public(ip_address(text))


@settings(max_examples=30, deadline=None)
@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_as_public_as_itself(inner):
    """Mapped, translated and tunnelled forms of an IPv4 address are judged like it."""
    number = int(inner)
    forms = [f"::ffff:{inner}", f"64:ff9b::{inner}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"]

    assert {is_public(ip_address(form)) for form in forms} == {is_public(inner)}


# ── a server ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Answer = Callable[["Handler"], None]
PAGE = """<html><head><title>A  page</title><style>.x{}</style><script>alert(1)</script></head>
<body><h1>Head</h1><p>One <b>bold</b> word, <a href="/next">a link</a> &amp; more.</p>
<ul><li>first</li><li>second</li></ul><p hidden>unseen</p><div style="display: none">unseen <b>too</b></div>
<table><tr><td>a</td><td>b</td></tr></table></body></html>"""


class Handler(BaseHTTPRequestHandler):
    """Answers by the path: `routes[path](handler)`."""

    routes: ClassVar[dict[str, Answer]] = {}
    seen: ClassVar[list[tuple[str, dict[str, str]]]] = []

    def do_GET(self) -> None:
        """Answer, and remember what was asked."""
        self.seen.append((self.path, dict(self.headers)))
        self.routes[self.path](self)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def page(body: str | bytes, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str) -> Answer:
    """A route that answers with this."""
    data = body.encode() if isinstance(body, str) else body

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        with suppress(ConnectionError):
            handler.wfile.write(data)

    return answer


def moved(to: str, status: int = 302) -> Answer:
    """A route that redirects."""
    return page("", status=status, Location=to)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server on 127.0.0.1; its address."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def local(server):
    """A fetcher that may reach that server and nothing else that is private."""
    Handler.seen.clear()
    return page_fetcher(allow=["127.0.0.1"], resolve=lookup)


def test_a_page_is_read(server, local):
    """Its text with headings, items and whole links; what a browser does not show is left out."""
    Handler.routes = {"/": page(PAGE)}
    text = fetched(server + "/", local).content

    assert text.splitlines()[:2] == [server + "/", "Title: A page"]
    assert "# Head" in text
    assert f"One bold word, [a link]({server}/next) & more." in text
    assert "- first\n" in text
    assert "unseen" not in text
    assert "alert" not in text


def test_it_connects_to_the_address_that_was_checked(server, local):
    """A name is resolved once: the connection goes there, with the name in the Host header and no secrets of ours."""
    asked = []

    def turncoat(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    Handler.routes = {"/": page("<p>hello</p>")}
    result = fetched(
        server.replace("127.0.0.1", "some.test") + "/", page_fetcher(allow=["127.0.0.1"], resolve=turncoat)
    )

    assert result.content.endswith("hello")
    assert asked == ["some.test"]
    ((_, headers),) = Handler.seen
    assert headers["Host"].startswith("some.test:")
    assert headers["Accept-Encoding"] == "identity"
    assert not {"Cookie", "Authorization"} & set(headers)


def test_redirects_are_followed_and_checked_like_the_first(server, local):
    """Relative ones too; one that leads inside is refused, and so is an endless row of them."""
    inside = [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "//192.168.0.1/",
        "file:///etc/passwd",
        "http://metadata.test/",
    ]
    Handler.routes = {
        "/start": moved("/a"),
        "/a": moved(f"{server}/end", 301),
        "/end": page("<p>there</p>"),
        "/loop": moved("/loop"),
    }
    Handler.routes |= {f"/{n}": moved(target) for n, target in enumerate(inside)}

    assert fetched(f"{server}/start", local).content.endswith("there")
    for n in range(len(inside)):
        result = fetched(f"{server}/{n}", local)
        assert (result.status, "fetched" in result.content) == ("error", True)
        assert "not on the public internet" in result.content or "only http" in result.content
    assert "more than 5 redirects" in fetched(f"{server}/loop", local).content


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["identity", "gzip", "deflate"])
def test_a_huge_page_is_cut(server, local, packing):
    """Also one that is small until it is unpacked."""
    huge = b"<p>" + b"word " * 4_000_000
    pack = {"identity": lambda data: data, "gzip": gzip.compress, "deflate": zlib.compress}[packing]
    Handler.routes = {"/": page(pack(huge), Content_Encoding=packing)}
    result = fetched(f"{server}/", local)

    assert result.status == "ok"
    assert f"(the first {MOST_BYTES:,} bytes)" in result.content
    assert len(result.content) <= 16_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (page("<p>nothing here</p>", status=404), 'answered 404 and says "Not Found: nothing here"'),
        (page(b"\x89PNG", "image/png"), "is image/png, not a page of text"),
        (page(b"x", Content_Encoding="br"), "packed the page as br"),
        (page(b"no gzip", Content_Encoding="gzip"), "can't be unpacked"),
        (lambda handler: handler.wfile.write(b"nonsense\r\n\r\n"), "can't be fetched: RemoteProtocolError"),
        (lambda handler: None, "can't be fetched: RemoteProtocolError"),
    ],
    ids=["404", "image", "brotli", "broken gzip", "nonsense", "nothing"],
)
def test_what_is_no_page_is_told(server, local, answer, words):
    """The model reads what came instead."""
    Handler.routes = {"/": answer}
    result = fetched(f"{server}/", local)

    assert result.status == "error"
    assert words in result.content


def test_a_server_that_drips_is_given_up(server, local):
    """One byte now and then does not hold a run: the whole is bounded in time."""
    leave = threading.Event()

    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            if leave.wait(0.05):
                return
            try:
                handler.wfile.write(b"x")
                handler.wfile.flush()
            except ConnectionError:
                return

    Handler.routes = {"/": drip}
    result = fetched(f"{server}/", local.replace(timeout=0.2))
    leave.set()

    assert (result.status, result.content) == ("timeout", "timed out after 0.2 s")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("北京".encode("gb18030"), "text/plain; charset=gb18030"),
        ('<meta charset="gb18030">北京'.encode("gb18030"), "text/html"),
        ("北京".encode(), "text/plain"),
        ("北京".encode(), "text/plain; charset=klingon"),
        (b"\x93Old\x9bNew\x94 \x80 5: \xb1\xb1", "text/plain; charset=iso-8859-1"),
    ],
    ids=["header", "page", "none", "unknown", "latin"],
)
def test_character_sets(server, local, body, kind):
    """The header's, the page's own, or UTF-8."""
    Handler.routes = {"/": page(body, kind)}
    assert fetched(f"{server}/", local).content.endswith(("北京", "“Old›New” € 5: ±±"))


def test_json_is_text(server, local):
    """What is not HTML comes as it is."""
    Handler.routes = {"/": page('{"a": [1]}', "application/json")}
    assert fetched(f"{server}/", local).content.endswith('{"a": [1]}')


def test_proxies_of_the_environment_are_not_used(server, local, monkeypatch):
    """A proxy would resolve names by itself."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    Handler.routes = {"/": page("<p>direct</p>")}

    assert fetched(f"{server}/", local).content.endswith("direct")


def test_only_addresses_can_be_allowed():
    """A name would be no address."""
    with pytest.raises(ToolDefinitionError, match="expected addresses or networks"):
        page_fetcher(allow=["localhost"])


@settings(max_examples=30, deadline=None)
@given(st.text("<>/ab!-&;#x\"'= \n", max_size=200))
def test_any_text_is_read(text):
    """Broken HTML never raises."""
    title, body = page_text(text, "http://a.test/")

    assert isinstance(title + body, str)
