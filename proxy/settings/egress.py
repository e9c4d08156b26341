"""The keys of a table that choose the way to its server: a proxy, and who vouches for it."""

from __future__ import annotations

import ssl
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Meta

from proxy.settings.servers import Text, headers_from
from proxy.settings.values import BadValue

Proxy: TypeAlias = Annotated[
    Annotated[
        str,
        Meta(
            pattern=r"^http://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$",
            max_length=512,
            title="http://host:port, without user or path",
        ),
    ]
    | None,
    Meta(
        description="HTTP proxy on the way there, like `http://proxy:3128` (CONNECT for https). "
        "Variables such as HTTPS_PROXY are not used."
    ),
]
ProxyHeaders: TypeAlias = Annotated[
    Text | None,
    Meta(
        description="File with `Name: value` lines, closed to others: headers that the proxy "
        "alone gets, such as `Proxy-Authorization: Basic ...`."
    ),
]
Authorities: TypeAlias = Annotated[
    Text | None,
    Meta(
        description="PEM file of the authorities that verify the certificate there, instead of "
        "the system's."
    ),
]


class Egress(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The way to the server of one table."""

    KIND: ClassVar = ""

    name: Text
    proxy: Proxy = None
    proxy_headers_file: ProxyHeaders = None
    ca_file: Authorities = None

    def __post_init__(self) -> None:
        """Refuse files that cannot be used, and headers for no proxy."""
        if self.proxy_headers and self.proxy is None:
            raise BadValue("proxy_headers_file belongs to a proxy")
        _ = self.tls

    @property
    def table(self) -> str:
        """The table's name in errors and the log; "" where no table names the server."""
        return f"[[{self.KIND}]] {self.name}" if self.KIND else ""

    @cached_property
    def proxy_headers(self) -> tuple[tuple[str, str], ...]:
        """The headers in `proxy_headers_file`."""
        return headers_from(self.proxy_headers_file, "proxy_headers_file")

    @cached_property
    def tls(self) -> ssl.SSLContext | bool:
        """The authorities in `ca_file`; True: the system's."""
        try:
            return self.ca_file is None or ssl.create_default_context(cafile=Path(self.ca_file))
        except OSError as error:
            why = "no certificate is in it" if isinstance(error, ssl.SSLError) else error.strerror
            allowed = "ca_file: must be a PEM file of certificates"
            raise BadValue(f"{allowed} ({self.ca_file}: {why})") from None


DIRECT: Final = Egress(name="direct")
"""The way to a server that no table names."""
