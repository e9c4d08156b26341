"""`python -P -m tests.integration.recorded_commands`: record what every command prints anew."""

from __future__ import annotations

from tests.integration.recorded_commands.recording import FOLDER, recorded


def main() -> None:
    """Write the files; `git diff` shows what changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in recorded().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} characters")  # noqa: T201 - a report


if __name__ == "__main__":
    main()
