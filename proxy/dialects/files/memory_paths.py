"""Which paths are memory files, however the paths are spelled."""

from __future__ import annotations

from typing import Final

from policy.text.paths import PathPattern, readings_of_path

MEMORY_PATHS: Final = (
    *("MEMORY.md", "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", ".claude/**"),
    *("AGENTS.override.md", ".cursorrules", ".cursor/rules/**", ".windsurfrules", ".clinerules"),
    *(".windsurf/rules/**", ".clinerules/**", ".github/instructions/**"),
    *(".github/copilot-instructions.md", "memories/**"),
)
"""The files that hosts load by themselves at the beginning of later conversations."""


class MemoryPaths:
    """A list of patterns for the paths of memory files (`policy.text.paths`)."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """Compile the patterns.

        Raises:
            BadPattern: A pattern is no path.
        """
        self.patterns = patterns
        self._compiled = tuple(map(PathPattern, patterns))

    def fits(self, path: str) -> bool:
        """Whether a path is that of a memory file, in any way that a file system may read it."""
        readings = readings_of_path(path)
        return any(one.fits(reading) for one in self._compiled for reading in readings)

    def fits_folder(self, path: str) -> bool:
        """Whether a path is that of a memory file, or of a folder above one.

        A call that moves a folder moves all memory files in it.
        """
        readings = readings_of_path(path)
        return any(one.fits_folder(reading) for one in self._compiled for reading in readings)


def left_out(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The shipped patterns of memory files that an operator's list leaves out."""
    paths = MemoryPaths(patterns)
    return tuple(one for one in MEMORY_PATHS if not paths.fits(one.replace("**", "any/file")))
