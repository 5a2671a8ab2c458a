"""Demšar's critical-difference diagram as inline SVG."""

from html import escape

from augury.bench.report.comparing import cliques
from augury.bench.report.svg import ticks
from augury.bench.statistics import Ranks

MIDDLE = 380  # the width of the axis
AXIS, ROW, BAR = 52, 19, 8
LETTER = 6.9


def rank_diagram(ranks: Ranks) -> str:
    """Methods on an axis of mean ranks, the best on the left; bars join what cannot be told apart."""
    ordered = sorted(ranks.mean, key=lambda name: ranks.mean[name])
    groups = cliques(ranks)
    k = len(ordered)
    side = round(20 + LETTER * max(len(name) + 6 for name in ordered))

    def x(rank: float) -> float:
        return side + (rank - 1.0) / max(k - 1.0, 1.0) * MIDDLE

    parts = [f'<path class="axis" d="M{x(1):.1f} {AXIS}H{x(k):.1f}"/>']
    for tick in ticks(1.0, float(k), min(k, 12)):
        at = f"{x(tick):.1f}"
        parts.append(f'<path class="axis" d="M{at} {AXIS}v-5"/>')
        parts.append(f'<text class="tick" x="{at}" y="{AXIS - 10}" text-anchor="middle">{tick:g}</text>')
    parts += _difference(ranks, x(1.0), x(min(1.0 + ranks.critical_difference, float(k))))
    top = AXIS + 10 + BAR * len(groups)
    half = (k + 1) // 2
    for place, name in enumerate(ordered):
        row = place if place < half else k - 1 - place
        end = x(ranks.mean[name]), top + 12 + ROW * row
        edge = side if place < half else side + MIDDLE
        parts += _method(name, ranks.mean[name], end, edge, left=place < half)
    for i, group in enumerate(groups):
        level = AXIS + 9 + BAR * i
        ends = x(ranks.mean[group[0]]) - 3, x(ranks.mean[group[-1]]) + 3
        parts.append(f'<path class="bar" d="M{ends[0]:.1f} {level}H{ends[1]:.1f}"/>')
    height, width = top + 12 + ROW * half, MIDDLE + 2 * side
    label = escape(f"Mean ranks: {', '.join(f'{name} {ranks.mean[name]:.2f}' for name in ordered)}")
    size = f'style="min-width: {width}px; max-width: {width}px"'
    head = f'<svg class="ranks" viewBox="0 0 {width} {height}" {size} role="img" aria-label="{label}">'
    return head + "".join(parts) + "</svg>"


def _method(name: str, rank: float, end: tuple[float, int], edge: int, *, left: bool) -> list[str]:
    """A method's name on its side, and the line that leads from it to its rank."""
    (x, y), way, anchor = end, -1 if left else 1, "end" if left else "start"
    text = f"{escape(name)} {rank:.2f}" if left else f"{rank:.2f} {escape(name)}"
    return [
        f'<path class="lead" d="M{x:.1f} {AXIS}V{y}H{edge + 8 * way}"/>',
        f'<text x="{edge + 12 * way}" y="{y}" dy=".32em" text-anchor="{anchor}">{text}</text>',
    ]


def _difference(ranks: Ranks, start: float, end: float) -> list[str]:
    """The length of the critical difference, cut off at the end of the axis."""
    beyond = ", beyond the axis" if 1.0 + ranks.critical_difference > len(ranks.mean) else ""
    text = f"critical difference {ranks.critical_difference:.2f}{beyond}"
    return [
        f'<path class="axis" d="M{start:.1f} 20v-6M{start:.1f} 17H{end:.1f}M{end:.1f} 20v-6"/>',
        f'<text class="tick" x="{start:.1f}" y="9" text-anchor="start">{text}</text>',
    ]
