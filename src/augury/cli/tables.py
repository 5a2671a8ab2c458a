"""Tables as text."""

from collections.abc import Sequence

from augury.algorithm import algorithms


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_algorithms() -> None:
    """The table of algorithms."""
    rows = [(r.name, r.surrogate or "-", r.policy or "-", r.reference) for r in algorithms().values()]
    print(table(("name", "surrogate", "policy", "reference"), rows))
