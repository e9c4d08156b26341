"""Faults in what is derived from rows: the index, its sketches, and reading rows beside writes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_INDEX: Final = "storage/derived/vectors/faiss_index.py"
_DERIVED: Final = "storage/derived/keeper.py"
_SKETCHES: Final = "tests/unit/storage/derived/vectors/test_sketches.py"
_READING: Final = "tests/unit/storage/derived/test_keeper.py"

INDEX: Final = (
    Mutant(
        name="a shortlist is always believed",
        file=_INDEX,
        old="        return self._cut + self._margin <= floor\n",
        new="        return self._cut <= self._cut + floor * 0\n",
        invariant="a quarantined flood does not blind the approximate search",
        tests=(at(_SKETCHES, "test_a_thousand_nearest_neighbours_left_out_do_not_blind_it"),),
    ),
    Mutant(
        name="an estimate has no error",
        file=_INDEX,
        old="        self._margin = SURENESS * sketch.error(turned)\n",
        new="        self._margin = 0 * sketch.error(turned)\n",
        invariant="the approximate search knows when it is not sure",
        tests=(_SKETCHES,),
    ),
    Mutant(
        name="excluded rows are scored from a shortlist",
        file=_INDEX,
        old="answer.add_rows(self.part, rows if mask is None else rows[mask[rows]])",
        new="answer.add_rows(self.part, rows)",
        invariant="what may not be read is in no answer",
        tests=(_SKETCHES,),
    ),
    Mutant(
        name="what was merged meanwhile replaces a purge",
        file=_INDEX,
        old="        gone = np.array(sorted(ordinals), dtype=np.int64)\n"
        "        with self._swapping:\n"
        "            self._snapshot = self._without(self._snapshot, gone)\n",
        new="        gone = np.array(sorted(ordinals), dtype=np.int64)\n"
        "        self._without(self._snapshot, gone)\n",
        invariant="a purged vector does not come back from a merge",
        tests=(at(_SKETCHES, "test_what_was_built_from_purged_rows_is_thrown_away"),),
    ),
    Mutant(
        name="what is written while rows are read is forgotten",
        file=_DERIVED,
        old="                    self._later.append(step)\n",
        new="",
        invariant="a committed memory is found, however early it came",
        tests=(_READING,),
    ),
    Mutant(
        name="reads do not wait for all rows",
        file="storage/read/reader.py",
        old="        self._derived.wait()\n        for patience",
        new="        for patience",
        invariant="no read answers from a part of the rows",
        tests=(_READING,),
    ),
)
