"""Opens one crash state with the shipped recovery, and holds it against what was acknowledged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from policy.canonical import digest_of
from storage.embedded import EmbeddedStore
from storage.ground.errors import StorageError
from storage.ground.state_directory import FILE_MODE
from tests.fault.crashstates.disk import Operation, Said, State
from tests.fault.crashstates.workload import (
    OPTIONS,
    Answer,
    Line,
    Picture,
    Script,
    answer_of,
    picture_of,
)
from tests.unit.storage.opening import Bench, submission_of, write

_LINES = msgspec.json.Decoder(Line)


class Promised(msgspec.Struct, frozen=True, kw_only=True):
    """The promises that hold at one moment: after the last answered step, during the next one.

    `answers` are those to all steps so far, `late` those to the step under way, which may have
    happened or not. No file may hold a text of `never`, nor anything of `gone`: these texts, and
    the texts and keys that were erased.
    """

    answered: int
    begun: int
    answers: dict[str, Answer]
    late: dict[str, Answer]
    never: tuple[bytes, ...]
    gone: tuple[bytes, ...]


class Journal:
    """Everything the workload said, and the picture after each step."""

    def __init__(self, operations: Sequence[Operation], script: Script) -> None:
        self._script = script
        self._lines = [_LINES.decode(one.data) for one in operations if isinstance(one, Said)]
        self.pictures: dict[int, Picture] = {
            line.step: line.picture for line in self._lines if line.picture is not None
        }
        self._answers = {line.step: line.answers for line in self._lines if line.picture}
        if len(self.pictures) != len(script.steps):
            raise ValueError("the workload did not answer every step")

    def after(self, said: Sequence[Line] | int) -> Promised:
        """The promises after the workload printed these lines, or the first so many."""
        lines = self._lines[:said] if isinstance(said, int) else said
        answers: dict[str, Answer] = {}
        keys: dict[str, str] = {}
        held: set[str] = set()
        erased: list[bytes] = []
        never = [text.encode() for text in (self._script.refused, *self._script.waiting)]
        answered = begun = -1
        for line in lines:
            begun = line.step
            # Released, by this very step or earlier: an ordinary memory.
            never = [text for text in never if not self._readable(text, self.pictures[begun])]
            if line.picture is None:
                continue
            answered = line.step
            answers |= line.answers
            keys |= line.keys
            held = {one.candidate_id for one in line.picture.held}
            if self._script.steps[line.step].erases:
                erased.append(self._script.steps[line.step].erases.encode())
        erased.extend(bytes.fromhex(key) for one, key in keys.items() if one not in held)
        late = {} if begun == answered else self._answers[begun]
        return Promised(
            answered=answered,
            begun=begun,
            answers=answers,
            late=late,
            never=tuple(never),
            gone=(*never, *erased),
        )

    @staticmethod
    def _readable(text: bytes, picture: Picture) -> bool:
        return any(text.decode() in (shown or "") for shown in picture.texts.values())


class Checker:
    """Checks states in one directory, one after the other."""

    def __init__(self, directory: Path, script: Script, journal: Journal) -> None:
        self._directory = directory
        self._script = script
        self._journal = journal
        # A retry is the same candidate under another candidate id; made once, because most of what
        # a state costs would otherwise be the making of these.
        self._retries = [
            [(one[0], submission_of(*one)) for one in step.writes] for step in script.steps
        ]

    def problems(self, state: State, promised: Promised, root: str) -> list[str]:
        self._lay_out(state, root)
        found = list(_named(state.files, promised.gone))
        return found + self.problems_here(promised)

    def problems_here(self, promised: Promised) -> list[str]:
        """Every promise that the directory breaks as it lies there."""
        found = list(self._left(promised.never))
        try:
            store = Bench(self._directory).open(options=OPTIONS)
        except (StorageError, OSError) as error:
            return [*found, f"it does not open: {type(error).__name__}: {error}"]
        try:
            found.extend(self._opened(store, promised))
        except (StorageError, BaseExceptionGroup) as error:
            found.append(f"it fails: {type(error).__name__}: {error}")
        finally:
            store.close()
        found.extend(f"after recovery: {one}" for one in self._left(promised.gone))
        return found

    def _lay_out(self, state: State, root: str) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        for path in state.directories:
            (self._directory / path[len(root) + 1 :]).mkdir(parents=True)
        for path, data in state.files.items():
            file = self._directory / path[len(root) + 1 :]
            file.write_bytes(data)
            file.chmod(FILE_MODE)  # modes are no part of what is recorded
        # After a power cut the copy of a shared store (`--store files`) is one of an earlier boot.
        for mark in self._directory.rglob("store.copy"):
            mark.write_text("an earlier boot")

    def _left(self, gone: Sequence[bytes]) -> Iterator[str]:
        files = {
            str(path): path.read_bytes()
            for path in self._directory.rglob("*")
            if path.is_file() and path.name != "lock.mdb"
        }
        yield from _named(files, gone)

    def _opened(self, store: EmbeddedStore, promised: Promised) -> Iterator[str]:
        status = store.reader.status()
        if not status.writable:
            yield f"it is not writable: {status.reason}"
        picture = picture_of(store)
        if promised.answered >= 0:
            yield from self._as_promised(store, promised, picture)
        elif picture.texts:
            yield "there are memories that nobody wrote"
        yield from store.reader.check().problems

    def _as_promised(
        self, store: EmbeddedStore, promised: Promised, picture: Picture
    ) -> Iterator[str]:
        before = self._journal.pictures[promised.answered]
        after = self._journal.pictures[promised.begun]
        if picture not in (before, after):
            yield f"the state is neither before nor after the step: {_difference(before, picture)}"
            return
        yield from self._asked_again(store, promised, picture)

    def _asked_again(
        self, store: EmbeddedStore, promised: Promised, before: Picture
    ) -> Iterator[str]:
        """A client that got its answer asks again; one that got none asks for the first time."""
        happened = before == self._journal.pictures[promised.begun]
        asked = [one for step in self._retries[: promised.begun + 1] for one in step]
        if not asked:
            return
        outcomes = write(store, *(submission for _, submission in asked))
        known = promised.answers | (promised.late if happened else {})
        for (candidate, _), outcome in zip(asked, outcomes, strict=True):
            first = known.get(candidate.nonce)
            if first is not None and (not outcome.replayed or answer_of(outcome) != first):
                yield (
                    f"{candidate.nonce} was answered {first}, "
                    f"and now {answer_of(outcome)} (replayed: {outcome.replayed})"
                )
        last = self._retries[promised.begun]
        if not last:
            return
        late = [one.replayed for one in outcomes[-len(last) :]]
        if len(set(late)) != 1 or (late[0] and not happened):
            yield f"the transaction under way is there in part: {late}"
        after = picture_of(store)
        if late[0] and after != before:
            yield "a retry changed the store"
        if after.texts != self._journal.pictures[promised.begun].texts:
            yield "a retry of the step under way did not do what the step would have done"


def _named(files: dict[str, bytes], gone: Sequence[bytes]) -> Iterator[str]:
    for path, data in files.items():
        for text in gone:
            if text in data:
                shown = digest_of(text).hex()[:8] if len(text) == 32 else text.decode()
                yield f"{Path(path).name} holds {shown}, which is gone"


def _difference(before: Picture, now: Picture) -> str:
    return ", ".join(
        f"{name} {getattr(before, name)!r} became {getattr(now, name)!r}"
        for name in Picture.__struct_fields__
        if getattr(before, name) != getattr(now, name)
    )[:500]
