"""Charts as inline SVG: lines with bands, tidy ticks, colours by CSS classes."""

import math
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from augury.bench.report.model import Array, Chart, Line
from augury.bench.report.numbers import tidy

WIDTH, HEIGHT = 460, 290
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 12, 42
POINTS = 60  # per line; more cannot be seen
COLOURS, DASHES = 8, 5
NEUTRAL = COLOURS - 1  # the colour of random search

Style = tuple[int, int]


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A colour and a dash for each method; variants "a", "a (code)" share the colour."""
    colours: dict[str, int] = {}
    taken: set[Style] = set()
    chosen = {}
    for name in names:
        base = name.split(" (")[0].split(", ")[0]
        if base not in colours:
            count = sum(other != "random" for other in colours)
            colours[base] = NEUTRAL if base == "random" else count % (COLOURS - 1)
        dash = next((d for d in range(DASHES) if (colours[base], d) not in taken), DASHES - 1)
        chosen[name] = (colours[base], dash)
        taken.add(chosen[name])
    return chosen


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between low and high: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * (1.0 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Powers of ten between low and high, or also their multiples by 2 and 5 if these are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = [
        10.0**e
        for e in range(first, last + 1)
        if low <= 10.0**e * (1 + 1e-9) and 10.0**e <= high * (1 + 1e-9)
    ]
    if len(powers) >= 3:
        return powers[:: math.ceil(len(powers) / count)]
    finer = (m * 10.0**e for e in range(first - 1, last + 1) for m in (1.0, 2.0, 5.0))
    return [tick for tick in finer if low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9)]


class Scale:
    """From a range of values to a range of pixels."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool = False) -> None:
        if log:
            self.low, self.high = low, high if high > low else 10.0 * low
        else:
            self.low, self.high = low, high if high > low else low + 1.0
        self.start, self.end, self.log = start, end, log

    def __call__(self, values: Array | float) -> Array:
        """Pixels, kept within the range."""
        v = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self.log:
            v, low, high = np.log(v), math.log(low), math.log(high)
        return self.start + (v - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Where the axis is labelled, and how: with as many digits as tell neighbours apart."""
        if self.log:
            return [(tick, tidy(tick)) for tick in log_ticks(self.low, self.high)]
        places = ticks(self.low, self.high)
        step = places[1] - places[0] if len(places) > 1 else 1.0
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        if decimals > 6 or max(map(abs, places)) >= 1e6:
            return [(tick, tidy(tick)) for tick in places]
        return [(tick, f"{tick:.{decimals}f}".replace("-", "−")) for tick in places]


def draw(chart: Chart, style: dict[str, Style], numbers: dict[str, int]) -> str:
    """The chart; `numbers` identifies methods, so that a legend can point to their lines."""
    lines = [_thin(line) for line in chart.lines]
    x, y = _scales(chart, lines)
    label = escape(f"{chart.title}: {chart.y} against {chart.x} for {', '.join(n.name for n in lines)}")
    return "".join(
        [
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
            *_axes(chart, x, y),
            *(_band(line, x, y, style[line.name], numbers[line.name]) for line in lines if len(line.low)),
            *(_path(line, x, y, style[line.name], numbers[line.name]) for line in lines),
            "</svg>",
        ]
    )


def _thin(line: Line) -> Line:
    """At most POINTS points, the first and the last among them, without those that are not numbers."""
    known = np.flatnonzero(~np.isnan(line.y))
    count = min(POINTS, len(known))
    kept = known[np.unique(np.linspace(0, len(known) - 1, count).round().astype(int))] if count else known
    bands = (line.low[kept], line.high[kept]) if len(line.low) else (line.low, line.high)
    return Line(line.name, line.x[kept], line.y[kept], *bands)


def _scales(chart: Chart, lines: Sequence[Line]) -> tuple[Scale, Scale]:
    x = np.concatenate([line.x for line in lines]) if lines else np.array([])
    y = np.concatenate([line.y for line in lines]) if lines else np.array([])
    if not len(x):
        x, y = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    if chart.log:
        low, high = float(y.min()) / 1.15, float(y.max()) * 1.15
    else:
        bands = [band for line in lines for band in (line.low, line.high) if len(band)]
        y = np.concatenate([y, *bands])
        margin = 0.04 * (float(y.max()) - float(y.min())) or 0.5
        low, high = float(y.min()) - margin, float(y.max()) + margin
        if chart.zero or 0.0 <= float(y.min()) < 0.5 * float(y.max()):
            low = 0.0
    across = Scale(float(x.min()), float(x.max()), LEFT, WIDTH - RIGHT)
    return across, Scale(low, high, HEIGHT - BOTTOM, TOP, log=chart.log)


def _axes(chart: Chart, x: Scale, y: Scale) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick, name in y.ticks():
        at = f"{float(y(tick)):.1f}"
        yield f'<path class="grid" d="M{LEFT} {at}H{right}"/>'
        label = f'x="{LEFT - 7}" y="{at}" dy=".32em" text-anchor="end">{name}'
        yield f'<text class="tick" {label}</text>'
    for tick, name in x.ticks():
        at = f"{float(x(tick)):.1f}"
        yield f'<path class="axis" d="M{at} {bottom}v4"/>'
        yield f'<text class="tick" x="{at}" y="{bottom + 17}" text-anchor="middle">{name}</text>'
    yield f'<path class="axis" d="M{LEFT} {bottom}H{right}"/>'
    middle = (LEFT + right) / 2
    label = f'x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(chart.x)}'
    yield f'<text class="name" {label}</text>'


def _path(line: Line, x: Scale, y: Scale, style: Style, number: int) -> str:
    if len(line.x) == 1:
        cx, cy = float(x(line.x)[0]), float(y(line.y)[0])
        return f'<circle class="l c{style[0]}" data-m="{number}" cx="{cx:.1f}" cy="{cy:.1f}" r="3"/>'
    return (
        f'<path class="l c{style[0]} d{style[1]}" data-m="{number}" d="{_steps(x(line.x), y(line.y))}"/>'
    )


def _band(line: Line, x: Scale, y: Scale, style: Style, number: int) -> str:
    across = np.concatenate([x(line.x), x(line.x)[::-1]])
    up = np.concatenate([y(line.high), y(line.low)[::-1]])
    return f'<path class="b c{style[0]}" data-m="{number}" d="{_steps(across, up)}z"/>'


def _steps(xs: Array, ys: Array) -> str:
    """A path in relative steps of a tenth of a pixel, which takes half as many characters."""
    tenths = np.stack([np.round(10 * xs), np.round(10 * ys)], axis=1).astype(int)
    if not len(tenths):
        return ""
    moves = "".join(_pair(dx, dy) for dx, dy in np.diff(tenths, axis=0).tolist())
    return f"M{_short(int(tenths[0][0]))} {_short(int(tenths[0][1]))}l{moves.strip()}" if moves else ""


def _pair(dx: int, dy: int) -> str:
    first, second = _short(dx), _short(dy)
    gap = "" if second.startswith("-") else " "
    return (first if first.startswith("-") else f" {first}") + gap + second


def _short(tenths: int) -> str:
    """A number of tenths without what is not needed: -.3, 4, 12.5."""
    text = f"{tenths / 10:.1f}".removesuffix(".0")
    if text.startswith("0."):
        return text[1:]
    return "-" + text[2:] if text.startswith("-0.") else text
