"""The rules in force with their text, and how others take their place while the sidecar runs.

A file that cannot be used changes nothing: the last good rules stay in force, and the caller gets
the reason. A change is asked for by SIGHUP or by the operator API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from policy.model import PrincipalId
from policy.ruleset import Ruleset, RulesetError, parse_ruleset
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.route import NoQuery
from proxy.admin.wire.store import POLICY, PolicyView
from proxy.admin.wire.upkeep import RELOAD, PolicyReloadRequest, PolicyReloadView
from proxy.seams.faults import RulesetRefused
from proxy.settings.table import SettingsError
from proxy.settings.wider import wider_rules
from storage.ground.errors import StorageError
from storage.interfaces import MemoryWriter

_LOG: Final = logging.getLogger("mnemogate.rules")
BY_SIGNAL: Final = PrincipalId("mnemogate:sighup")
MEM0: Final = "mem0"
# Seconds between two readings of the file, which must be equal: a file that is being written may be
# cut off at a place where it is still valid TOML.
SETTLE_S: Final = 0.05


def parse_rules(text: str) -> Ruleset:
    """Parse a ruleset, and check that every dialect can work with it.

    Raises:
        RulesetError: Anything is missing, unknown or out of range.
    """
    ruleset = parse_ruleset(text)
    if MEM0 not in ruleset.classes:
        raise RulesetError(f"classes.{MEM0}: missing; the dialect needs a class map")
    return ruleset


class Rules:
    """Holds the text of the rules in force, and reloads them from their file. Event loop only."""

    def __init__(
        self,
        text: str,
        *,
        read: Callable[[], str],
        writer: MemoryWriter,
        in_force: Callable[[], Ruleset],
        settle_s: float = SETTLE_S,
    ) -> None:
        """`text` is the source of the rules in force; `read` returns the file's text."""
        self.text = text
        self.in_force = in_force
        self._read = read
        self._writer = writer
        self._settle_s = settle_s
        self._one_at_a_time = asyncio.Lock()

    async def reload(self, by: PrincipalId, digest: str | None = None) -> PolicyReloadView:
        """Read the file again and put its rules in force; its digest has to be `digest`.

        A candidate that waits for the writer is judged by the rules that are in force on its turn;
        a decision that is being made ends under the epoch it began with.

        Raises:
            RulesetRefused: The file cannot be used.
            StorageError: The store did not take the new epoch.
        """
        async with self._one_at_a_time:
            before = self.in_force()
            try:
                text, ruleset = await self._candidate(digest)
            except (RulesetError, SettingsError) as error:
                _LOG.error(
                    "ruleset refused; the rules before stay in force",
                    extra={"fields": {"why": str(error), "epoch": before.epoch}},
                )
                raise RulesetRefused(f"{error}; epoch {before.epoch} stays in force") from error
            adopted = await self._writer.adopt_ruleset(ruleset, by)
            self.text = text
        for one in wider_rules(ruleset):
            _LOG.warning("wider than as shipped", extra={"fields": {"what": one}})
        _LOG.info(
            "ruleset in force",
            extra={"fields": {"digest": adopted.digest, "epoch": adopted.epoch}},
        )
        return PolicyReloadView(
            digest=adopted.digest,
            epoch=adopted.epoch,
            changed=adopted.digest != before.digest,
        )

    @route(POLICY)
    async def shown(self, _call: OperatorCall[NoQuery]) -> PolicyView:
        """The ruleset in force."""
        rules = self.in_force()
        return PolicyView(digest=rules.digest, epoch=rules.epoch, text=self.text)

    @route(RELOAD)
    async def reload_asked(self, call: OperatorCall[PolicyReloadRequest]) -> PolicyReloadView:
        """Put the ruleset's file in force as it is now, for an operator; as `reload` does."""
        return await self.reload(call.operator, call.asked.digest)

    async def reload_by_signal(self) -> None:
        """Reload for a signal; an error goes into the log, because no caller waits for it."""
        try:
            await self.reload(BY_SIGNAL)
        except RulesetRefused:
            return
        except StorageError as error:
            _LOG.error(
                "ruleset not adopted; the rules before stay in force",
                extra={"error_type": type(error).__name__},
            )

    async def _candidate(self, digest: str | None) -> tuple[str, Ruleset]:
        first = await asyncio.to_thread(self._read)
        await asyncio.sleep(self._settle_s)
        text = await asyncio.to_thread(self._read)
        if text != first:
            raise RulesetError("the file changed while it was read; put it in place by renaming")
        ruleset = parse_rules(text)
        if digest is not None and ruleset.digest != digest:
            raise RulesetError(f"its digest is {ruleset.digest}, not the one that was asked for")
        return text, ruleset
