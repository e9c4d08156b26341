"""The `[review.webhook]` table: the receiver that hears over HTTP of held candidates."""

from __future__ import annotations

import base64
import binascii
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from proxy.settings.secret_files import secret_from
from proxy.settings.servers import Text, check_url
from proxy.settings.values import BadValue, Secret, table_of

Network: TypeAlias = IPv4Network | IPv6Network
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
_SECRET_LEN_MIN: Final = 24
_SECRET_LEN_MAX: Final = 64


class ReceiverTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where messages go over HTTP, and how they are signed, as it stands in the file."""

    url: Text
    secret_file: Text
    second_secret_file: Text | None = None
    allow: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()


class WebhookTable(ReceiverTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[review.webhook]` table, as it stands in the file."""

    page_url: Text | None = None


class _ReviewTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    webhook: WebhookTable


MEANINGS: Final[dict[str, str]] = {
    "url": "Where notices go by POST: `https://`, or `http://` to addresses in `allow`.",
    "secret_file": "File with the secret that notices are signed with, closed to strangers: "
    "`whsec_` and 24 to 64 bytes in base64.",
    "second_secret_file": "File with another one, while a receiver goes over from one to the "
    "other: each notice has both signatures.",
    "allow": "Ranges of addresses that notices may go to although they are not public "
    '(`["10.1.0.0/16"]`): loopback, private, link-local, carrier-grade NAT, IPv4 inside IPv6. '
    "Every address that the name of the URL has is judged at each notice.",
    "page_url": "What the address of a candidate's page begins with, where people do not come by "
    "the `admin` address (`https://gate.example`): a notice, and the observation of what is held, "
    "name `<page_url>/confirm/<id>`. Its host belongs in `allowed_hosts`.",
}


class ReviewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """The `[review.webhook]` or the `[after.webhook]` table, checked.

    Each secret is `whsec_` and base64; there are one or two of them.
    """

    url: str
    secrets: tuple[Secret, ...]
    allow: tuple[Network, ...]
    page_url: str | None = None


def review_webhook(tables: list[object]) -> ReviewWebhook | None:
    """The settings of the one `[review]` table; None where there is none.

    Raises:
        BadValue: The message names the key and what is allowed, and no secret.
    """
    if not tables:
        return None
    try:
        given = table_of(tables[0], _ReviewTable).webhook
        page_url = given.page_url
        if page_url is not None:
            try:
                check_url(page_url, has_credential=False)
            except BadValue as error:
                raise BadValue(f"page_{error}") from None
            page_url = page_url.rstrip("/")
        return msgspec.structs.replace(receiver_of(given), page_url=page_url)
    except BadValue as error:
        raise BadValue(f"review.webhook: {error}") from None


def key_of(secret: Secret) -> bytes:
    """The bytes that a secret stands for, 24 to 64 of them.

    Raises:
        BadValue: The message says what a secret looks like, and nothing of the given one.
    """
    allowed = f"{SECRET_PREFIX} and {_SECRET_LEN_MIN} to {_SECRET_LEN_MAX} bytes in base64"
    prefix, text = secret.reveal()[: len(SECRET_PREFIX)], secret.reveal()[len(SECRET_PREFIX) :]
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise BadValue(allowed) from None
    if prefix != SECRET_PREFIX or not _SECRET_LEN_MIN <= len(key) <= _SECRET_LEN_MAX:
        raise BadValue(allowed)
    return key


def receiver_of(given: ReceiverTable) -> ReviewWebhook:
    """The receiver that a table names, with its secrets read.

    Raises:
        BadValue: The message names the key and what is allowed, and no secret.
    """
    check_url(given.url, has_credential=False)
    allow = tuple(network_of(one) for one in given.allow)
    if urlsplit(given.url).scheme != "https" and not allow:
        raise BadValue("url: must be https://, or http:// to addresses that `allow` lists")
    files = {"secret_file": given.secret_file, "second_secret_file": given.second_secret_file}
    secrets = tuple(_secret(key, file) for key, file in files.items() if file is not None)
    return ReviewWebhook(url=given.url, secrets=secrets, allow=allow)


def _secret(key: str, file: str) -> Secret:
    try:
        found = secret_from(Path(file).expanduser())
        key_of(found)
    except BadValue as error:
        raise BadValue(f"{key}: must be {error}") from None
    return found


def network_of(text: str) -> Network:
    """A range of addresses, read from an entry of `allow`.

    Raises:
        BadValue: The entry is no such range; the message says what is allowed.
    """
    try:
        return ip_network(text)
    except ValueError:
        raise BadValue('allow: must be ranges of addresses, like "10.1.0.0/16"') from None
