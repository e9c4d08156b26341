"""What `[[mcp]]` and `[[model]]` tables share: a server's URL and its credential."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

from proxy.settings.secret_files import pairs_from
from proxy.settings.values import BadValue

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,62}$"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")
_OUR_HEADERS: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host"}
    | {"keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)

Text = Annotated[str, Meta(min_length=1, max_length=4_096, pattern=r"^[^\0]*$")]


def check_url(url: str, *, has_credential: bool) -> None:
    """Refuse a URL that names no single server, or that would send a credential unencrypted.

    Raises:
        BadValue: The URL is not allowed; the message says what is.
    """
    allowed = "url: must be http:// or https:// with a host, without user, query or fragment"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadValue(allowed) from None
    plain = parts.scheme in ("http", "https") and host and not parts.username
    if not plain or parts.query or parts.fragment or not url.isascii() or not url.isprintable():
        raise BadValue(allowed)
    if has_credential and parts.scheme == "http" and not is_loopback(str(host)):
        raise BadValue("headers_file: a credential goes over https, or to a loopback address")


def headers_from(file: str | None) -> tuple[tuple[str, str], ...]:
    """The headers in a file of secrets; none where there is no file.

    Raises:
        BadValue: The message says what the file must be like, and nothing of its content.
    """
    if file is None:
        return ()
    try:
        headers = pairs_from(Path(file).expanduser())
    except BadValue as error:
        raise BadValue(f"headers_file: must be {error}") from None
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _PRINTABLE.fullmatch(value):
            raise BadValue("headers_file: a line is not a header")
        if name.lower() in _OUR_HEADERS:
            raise BadValue("headers_file: a header that is made anew for each request")
    return headers


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
