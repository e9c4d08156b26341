"""The paper's own figures, in percent, in the shape of this evaluation's tables."""

from __future__ import annotations

from typing import Final

_ALL: tuple[str, ...] = ("A1", "A2", "A3", "A4", "A5")

TABLE2: Final[dict[str, dict[str, float]]] = {
    system: dict.fromkeys(_ALL, nfr)
    for system, nfr in (("B0", 0.0), ("B1", 0.0), ("LG", 0.0), ("S3", 100.0), ("S4", 100.0))
}
TABLE3: Final = {
    "rejected": 100.0,
    "row_removed": 100.0,
    "vector_removed": 100.0,
    "version_unchanged": 0.0,
    "absent_from_probe": 0.0,
    "ever_materialized": 100.0,
}
# The paper infers B0 and B1 from the absence of an interceptor; here all five systems are measured.
TABLE4: Final = {"B0": 100.0, "B1": 100.0, "LG": 100.0, "S3": 100.0, "S4": 0.0}
TABLE5: Final = {
    "claims_source": {"5": 97.8, "10": 100.0, "20": 92.2},
    "claims_class": {"5": 97.8, "10": 94.4, "20": 86.7},
    "claims_both": {"5": 96.7, "10": 92.2, "20": 86.7},
    "claims_targeted": {"100": 0.0},
}
FPR: Final = {"B1": 5.0, "S4": 0.0}
SEMANTIC_LIMIT: Final = 100.0
TABLE6: Final = ("trusted", "degraded", "degraded", "untrusted", "untrusted")
APPENDIX_A: Final = {
    "trust_reaches_untrusted": 100.0,
    "quarantine_excludes_the_partition": 100.0,
    "staging_blocks_and_lets_pass": 100.0,
}
