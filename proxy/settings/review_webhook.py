"""The tables `[review.webhook]` and `[after.webhook]`: HTTP receivers of messages."""

from __future__ import annotations

import base64
import binascii
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.settings.secret_files import secret_from
from proxy.settings.servers import Network, Text, Texts, check_receiver, networks_of
from proxy.settings.values import BadValue

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
_SECRET_LEN_MIN: Final = 24
_SECRET_LEN_MAX: Final = 64


class Receiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """`[review.webhook]`, `[after.webhook]`: where messages go, and the keys that sign them."""

    url: Annotated[
        Text,
        Meta(
            description="Where notices go by POST: `https://`, or `http://` to addresses in "
            "`allow`."
        ),
    ]
    secret_file: Annotated[
        Text,
        Meta(
            description="File with the secret that notices are signed with, closed to strangers: "
            "`whsec_` and 24 to 64 bytes in base64."
        ),
    ]
    second_secret_file: Annotated[
        Text | None,
        Meta(
            description="File with another one, while a receiver goes over from one to the other: "
            "each notice has both signatures."
        ),
    ] = None
    allow: Annotated[
        Texts,
        Meta(
            description="Ranges of addresses that notices may go to although they are not public "
            '(`["10.1.0.0/16"]`): loopback, private, link-local, carrier-grade NAT, IPv4 inside '
            "IPv6. Every address that the name of the URL has is judged at each notice."
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Refuse a URL to which no message may be sent, and files without a secret."""
        check_receiver(self.url, self.networks)
        _ = self.keys

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The ranges in `allow`, parsed."""
        return networks_of(self.allow)

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        """The one or two keys that messages are signed with, 24 to 64 bytes each."""
        files = {"secret_file": self.secret_file, "second_secret_file": self.second_secret_file}
        return tuple(_key(name, file) for name, file in files.items() if file is not None)


class ReviewTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[review]` table."""

    webhook: Receiver


def _key(name: str, file: str) -> bytes:
    text, key = "", b""
    try:
        text = secret_from(Path(file).expanduser()).reveal()
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except BadValue as error:
        raise BadValue(f"{name}: must be {error}") from None
    except binascii.Error:
        pass
    if not text.startswith(SECRET_PREFIX) or not _SECRET_LEN_MIN <= len(key) <= _SECRET_LEN_MAX:
        raise BadValue(
            f"{name}: must be {SECRET_PREFIX} and {_SECRET_LEN_MIN} to {_SECRET_LEN_MAX} bytes in "
            "base64"
        )
    return key
