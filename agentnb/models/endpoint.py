"""Where a call goes: one address made of the forms that people write, its headers, and advice when it fails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

import httpx

from agentnb.errors import SettingsError
from agentnb.models.clients import LOOPBACK
from agentnb.models.curl import curl_command
from agentnb.settings import Secret
from agentnb.text import hide, mask, shorten

_FIXED = [(b"user-agent", b"agentnb"), (b"accept", b"*/*"), (b"content-type", b"application/json")]
NO_KEY = "none"
"""Sent to a server that needs no key."""
_PASTED = ("/chat/completions", "/responses")
"""What people paste along with a base URL that serves several dialects."""
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)
_SECRET_PARAMETER = re.compile("auth|key|token|secret|pass|^(code|sig|signature)$", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, section 5.6.2."""
_RANDOM_LENGTH = 20
"""So long a value of any query parameter may be a secret."""


class Endpoint:
    """The address of one kind of call, and the headers that it carries.

    Args:
        base_url: With the version path; a slash at the end, or the pasted path itself, does no harm. A query is kept;
            a key in it is hidden like any other, and like any other it does not travel with a pickle.
        path: Such as "/chat/completions".
        headers: Header name to value; a Secret is revealed only when a request is made.
        usual_path: The version path that an address without any path most likely lacks.

    Raises:
        SettingsError: The address or a header value can't be used.
    """

    def __init__(
        self, base_url: str, path: str, headers: Mapping[str, str | Secret] | None = None, usual_path: str = "/v1"
    ) -> None:
        address, _, query = base_url.strip().partition("#")[0].partition("?")  # a fragment is never sent
        base = address.rstrip("/")
        for pasted in (path, *_PASTED):
            base = base.removesuffix(pasted).rstrip("/")
        self._bare_url = _parsed(base + path)
        self._query = tuple(_guarded_parameter(each) for each in query.split("&") if each)
        self._origin = self._bare_url.copy_with(path="/", query=None, fragment=None)
        self._curl: str | None = None
        self.base = mask(base)
        self.target = f"POST {mask(base + path)}"
        """Method and address as they may be shown: without the query, which may hold a key."""
        self.is_bare = self._bare_url.path == path
        self.usual_path = usual_path
        self.is_local = self._bare_url.host in LOOPBACK
        self.headers = {name.lower(): _guarded(name, value) for name, value in (headers or {}).items()}
        for name, value in self.headers.items():
            _check_header(name, value)
        self.account = (self.base, *(value for value in self.headers.values() if isinstance(value, Secret)))
        """Server and key, whose calls share a rate limit."""

    @property
    def url(self) -> httpx.URL:
        """The whole address, with its query and what is secret in it."""
        if not self._query:
            return self._bare_url
        return httpx.URL(f"{self._bare_url}?{'&'.join(map(_revealed, self._query))}")

    @property
    def origin(self) -> httpx.URL:
        """Scheme, host and port alone: what a connection is for."""
        return self._origin

    @property
    def curl(self) -> str:
        """The curl command that calls it, without a body; variables stand in the place of keys."""
        if self._curl is None:
            self._curl = curl_command(str(self._bare_url), self._query, self.headers)
        return self._curl

    def request(self, body: bytes, timeout: Mapping[str, float]) -> httpx.Request:
        """The request that sends this body."""
        own = [(name.encode(), _revealed(value).encode()) for name, value in self.headers.items()]
        length = (b"content-length", str(len(body)).encode())
        return httpx.Request(
            "POST",
            self.url,
            headers=[(b"host", self._bare_url.netloc), *_FIXED, *own, length],
            stream=httpx.ByteStream(body),
            extensions={"timeout": timeout},
        )

    def advice(self, status: int | None) -> str:
        """What to do after an answer with this status, or after none; "" when nothing special is known."""
        if status is None and self.is_local:
            return "Is the server running, and is this its address?"
        if status is None:
            return "Check the network and the base URL."
        if status in (401, 403):
            names = [value.name for value in self.headers.values() if isinstance(value, Secret) and value.name]
            return f"Check the key in {names[0]}, and that it belongs to {self.base}." if names else ""
        if status in (404, 405) and self.is_bare:
            return f"Did you mean the base URL {self.base}{self.usual_path}?"
        return ""


def key_header(api_key: str | Secret | None, header: str) -> dict[str, str | Secret]:
    """The header with the key, "Bearer KEY" where it is `authorization`; "none" where there is no key."""
    bears = header == "authorization"
    if api_key is None or api_key == NO_KEY:
        return {header: f"Bearer {NO_KEY}" if bears else NO_KEY}
    key = api_key if isinstance(api_key, Secret) else Secret(api_key)
    return {header: key.with_prefix("Bearer ") if bears else key}


def check_address(base_url: str) -> None:
    """Refuse what no call can go to.

    Raises:
        SettingsError: It is no address of http or https, or holds a password.
    """
    _parsed(base_url.strip().partition("#")[0].partition("?")[0])


def _parsed(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    if url.userinfo:
        hide(url.userinfo.decode())
        hide(url.password)
        raise SettingsError(
            "the base URL holds a user name or password", remedy="Leave it out; give the key as api_key."
        )
    if url.scheme not in ("http", "https") or not url.host or any(map(str.isspace, address)):
        what = "is no http or https address" if "://" in address else "has no http:// or https:// before it"
        raise SettingsError(
            f"{_shown(address)} {what}",
            remedy="Write the base URL with the version path, such as https://api.openai.com/v1.",
        )
    return url


def _shown(address: str) -> str:
    """The address, where it looks like one: people paste a key in its place."""
    return repr(mask(address)) if any(sign in address for sign in ".:/") else "the base URL"


def _check_header(name: str, value: str | Secret) -> None:
    """httpx refuses a bad value with a message that shows it, so it is refused here first."""
    if not _HEADER_NAME.fullmatch(name):
        raise SettingsError(
            f"{shorten(mask(name))!r} can't be the name of a header", remedy="Write letters, digits and hyphens."
        )
    text = value.reveal().removeprefix(value.prefix) if isinstance(value, Secret) else value.strip()
    if text and all(" " <= sign <= "~" for sign in text):
        return
    source = getattr(value, "name", "") or f"the value of header {name!r}"
    bad = next((place for place, sign in enumerate(text, 1) if not " " <= sign <= "~"), 0)
    what = f"holds a character, number {bad}, that no header may hold" if text else "is empty"
    raise SettingsError(f"{source} {what}", remedy="Copy it again: plain ASCII in one line, without line ends.")


def _revealed(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value.strip()


def _guarded(name: str, value: str | Secret) -> str | Secret:
    """A header value that may be a key, as a Secret."""
    secret = isinstance(value, str) and value not in (NO_KEY, f"Bearer {NO_KEY}") and _SECRET_HEADER.search(name)
    return Secret(str(value)) if secret else value


def _guarded_parameter(text: str) -> str | Secret:
    """A "name=value" of a query; as a Secret where the value may be one."""
    name, _, value = text.partition("=")
    if not _SECRET_PARAMETER.search(name) and len(value) < _RANDOM_LENGTH:
        return text
    hide(unquote(value))
    return Secret(value).with_prefix(f"{name}=")
