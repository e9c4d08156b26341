"""Types and checks that several tables share: names, URLs, credentials, ranges of addresses."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Meta

from proxy.settings.secret_files import pairs_from
from proxy.settings.values import BadValue

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")
_OUR_HEADERS: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host"}
    | {"keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)

Network: TypeAlias = IPv4Network | IPv6Network
Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$",
        title="a name of lower-case letters, digits, `.`, `_`, `-`",
    ),
]
Text = Annotated[
    str,
    Meta(min_length=1, max_length=4_096, pattern=r"^[^\0]*$", title="a text that is not empty"),
]
Texts = Annotated[tuple[Text, ...], Meta(max_length=64)]
Principals = Annotated[frozenset[Text], Meta(min_length=1, max_length=256)]


def check_url(url: str, *, has_credential: bool) -> None:
    """Refuse a URL that names no single server, or that would send a credential unencrypted.

    Raises:
        BadValue: The URL is not allowed; the message names the allowed form.
    """
    allowed = "url: must be http:// or https:// with a host, without user, query or fragment"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadValue(allowed) from None
    # A password alone is a credential as well, and URLs are shown in logs.
    plain = parts.scheme in ("http", "https") and host and "@" not in parts.netloc
    if not plain or parts.query or parts.fragment or not url.isascii() or not url.isprintable():
        raise BadValue(allowed)
    if has_credential and parts.scheme == "http" and not is_loopback(str(host)):
        raise BadValue("headers_file: a credential goes over https, or to a loopback address")


def check_receiver(url: str, allow: tuple[Network, ...]) -> None:
    """Refuse the URL of a receiver over plain HTTP, unless `allow` has ranges of addresses.

    Raises:
        BadValue: The URL is not allowed; the message names the allowed form.
    """
    check_url(url, has_credential=False)
    if urlsplit(url).scheme != "https" and not allow:
        raise BadValue("url: must be https://, or http:// to addresses that `allow` lists")


def networks_of(allow: tuple[str, ...]) -> tuple[Network, ...]:
    """The ranges of addresses in the key `allow`.

    Raises:
        BadValue: An entry is not a range of addresses; the message names what is allowed.
    """
    try:
        return tuple(map(ip_network, allow))
    except ValueError:
        raise BadValue('allow: must be ranges of addresses, like "10.1.0.0/16"') from None


def headers_from(file: str | None, key: str = "headers_file") -> tuple[tuple[str, str], ...]:
    """The headers in a file of secrets, which the setting `key` names; () if `file` is None.

    Raises:
        BadValue: The file has another form; the message names the form, and quotes no content.
    """
    if file is None:
        return ()
    try:
        headers = pairs_from(Path(file).expanduser())
    except BadValue as error:
        raise BadValue(f"{key}: must be {error}") from None
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _PRINTABLE.fullmatch(value):
            raise BadValue(f"{key}: a line is not a header")
        if name.lower() in _OUR_HEADERS:
            raise BadValue(f"{key}: a header that is made anew for each request")
    return headers


def is_loopback(host: str) -> bool:
    """Whether a host is `localhost` or a loopback address; no name is looked up."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
