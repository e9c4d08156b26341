"""The `[[judge]]` tables: a caller's programs and servers that judge whether an answer is wrong."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from proxy.settings.servers import Name, Network, Text, Texts, check_receiver, networks_of
from proxy.settings.values import BadValue
from storage.ground.trusted_files import UnfitFile, reason, refuse_replaceable


class JudgeTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One `[[judge]]` table: it has either a command or a URL."""

    name: Annotated[
        Name,
        Meta(description="What the judge is called; lower-case letters, digits, `.`, `_`, `-`."),
    ]
    command: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            max_length=64,
            description="Its program by an absolute path, with arguments. It is run for each "
            "question in a process group of its own, without environment; the question is its "
            "standard input.",
        ),
    ] = ()
    url: Annotated[
        Text,
        Meta(
            description="Or its URL: a POST for each question, `https://`, or `http://` to what "
            "`allow` has. Redirects are not followed."
        ),
    ] = ""
    allow: Annotated[
        Texts,
        Meta(
            description="Ranges of addresses that the POST may go to although they are not public."
        ),
    ] = ()
    deterministic: Annotated[
        bool,
        Meta(
            description="Whether it answers the same each time, so that one answer counts "
            "(`mnemogate judge test` asks twice). It has 30 seconds; a later answer is none."
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse a judge with both or neither of command and URL, or that others can replace."""
        if bool(self.command) == bool(self.url):
            raise BadValue("give exactly one of command and url")
        if self.url:
            check_receiver(self.url, self.networks)
        elif self.allow:
            raise BadValue("allow: is for a url")
        else:
            _check_program(Path(self.command[0]))

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The ranges in `allow`, parsed."""
        return networks_of(self.allow)


def _check_program(program: Path) -> None:
    if not program.is_absolute():
        raise BadValue("command: a program by its absolute path: it has no PATH to be found in")
    try:
        refuse_replaceable(program)
        if not program.is_file():
            raise BadValue(f"command: there is no program {program}")
    except UnfitFile as error:
        # The program runs as the gate's user, so whoever can replace it has the gate's rights.
        raise BadValue(f"command: must be {error}") from None
    except OSError as error:
        raise BadValue(f"command: cannot be looked at ({reason(error)})") from None
