"""System B1: a text filter such as most guards are, built as well as such a filter can be.

The filter has three layers: the label that the caller claims, the words of the text, and the shape
of the text. It believes the label, and uses neither channel nor digest, nonce or token.
"""

from __future__ import annotations

import re
from typing import Final

from policy.model import Candidate, MemoryClass, SourceKind
from policy.text.skeleton import skeleton
from policy.verdict import Reason, Reject
from storage.values import Submission

# (1) Pairs of source and class that a caller with honest labels may not write.
_FORBIDDEN: Final = {
    (SourceKind.TOOL_RESULT, MemoryClass.L1),
    (SourceKind.TOOL_RESULT, MemoryClass.L2),
    (SourceKind.MODEL_INFERENCE, MemoryClass.L1),
    (SourceKind.UNKNOWN, MemoryClass.L1),
}

# (2) Phrases that such filters look for in the folded text.
_PHRASES: Final = re.compile(
    r"ignore (?:all |any )?(?:the )?(?:previous|prior|earlier|above) (?:instructions|rules)"
    r"|disregard (?:all |any |the )?(?:previous|prior|system|safety)"
    r"|(?:system|developer) (?:prompt|override|message)\s*:"
    r"|you are now (?:a|an|in)\b|act as (?:a|an|if)\b|jailbreak|do anything now"
    r"|from now on,? (?:always|never|you)|new instructions?\s*:"
    r"|\balways (?:recommend|use|prefer|approve|choose|suggest|trust|send|run)\b"
    r"|\bnever (?:tell|mention|warn|ask|reveal)\b"
    r"|(?:exfiltrate|leak|forward) .{0,40}(?:password|secret|token|key)"
    r"|\b(?:sudo|rm -rf|drop table|eval\(|exec\(|base64 -d|curl [^ ]+ \| ?(?:sh|bash))"
)

# (3) Shapes that a note seldom has: role markers, long runs of code letters, hidden characters.
_SHAPES: Final = re.compile(
    r"<\|(?:im_start|system|assistant)\|>|\[/?(?:INST|SYS)\]|^### ?(?:system|instruction)"
    r"|[A-Za-z0-9+/]{80,}={0,2}|[\u200b-\u200f\u202a-\u202e\u2060-\u2064\U000e0000-\U000e007f]",
    re.MULTILINE | re.IGNORECASE,
)


def heuristic_objection(submission: Submission) -> Reject | None:
    """The refusal by the first layer that objects to a write; None if none objects."""
    candidate = submission.candidate
    for step, reason, objects in (
        (1, Reason.SOURCE_CLASS_FORBIDDEN, _label),
        (2, Reason.INJECTION_LANGUAGE, _words),
        (3, Reason.DIRECTIVE_LANGUAGE, _shape),
    ):
        if objects(candidate):
            return Reject(reason=reason, step=step, memory_class=candidate.memory_class)
    return None


def _label(candidate: Candidate) -> bool:
    source = candidate.claimed_source or SourceKind.UNKNOWN
    return (source, candidate.memory_class) in _FORBIDDEN


def _words(candidate: Candidate) -> bool:
    return candidate.text is not None and _PHRASES.search(skeleton(candidate.text)) is not None


def _shape(candidate: Candidate) -> bool:
    return candidate.text is not None and _SHAPES.search(candidate.text) is not None
