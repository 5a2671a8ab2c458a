"""Numbers as readers like them: few digits, the error deciding how many."""

import math

from augury.bench.statistics import Summary

NONE = "–"


def tidy(number: float, digits: int = 3) -> str:
    """Some significant digits, without trailing noise; a dash for what is not a number."""
    if math.isnan(number):
        return NONE
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = f"{number:.{digits}g}"
    if "e" in text and 1.0 <= abs(number) < 1e6:
        text = f"{float(text):.0f}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "−")


def with_error(mean: float, error: float) -> str:
    """`mean ± error`, both to the error's second digit."""
    if math.isnan(mean) or math.isnan(error) or math.isinf(mean) or math.isinf(error):
        return tidy(mean)
    if error == 0.0:
        return f"{tidy(mean)} ± 0"
    largest = math.floor(math.log10(max(abs(mean), error)))
    if -4 <= largest < 6:
        decimals = max(0, 1 - math.floor(math.log10(error)))
        if decimals <= 6:
            return f"{mean:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")
        return f"{tidy(mean)} ± {tidy(error, 2)}"
    scale = 10.0**largest
    decimals = min(max(0, 1 - math.floor(math.log10(error / scale))), 6)
    text = f"({mean / scale:.{decimals}f} ± {error / scale:.{decimals}f})e{largest}"
    return text.replace("-", "−")


def mean_error(summary: Summary | None) -> str:
    """Mean ± standard error."""
    return NONE if summary is None else with_error(summary.mean, summary.error)


def median_quartiles(summary: Summary | None) -> str:
    """Median [quartiles]."""
    if summary is None:
        return NONE
    low, high = summary.quartiles
    numbers = (summary.median, low, high)
    spread, largest = high - low, max(map(abs, numbers))
    if spread > 0.0 and 1e-4 <= largest < 1e6 and spread > 1e-6 * largest:
        decimals = max(0, 1 - math.floor(math.log10(spread)))
        median, low_text, high_text = (f"{number:.{decimals}f}".replace("-", "−") for number in numbers)
    else:
        median, low_text, high_text = map(tidy, numbers)
    return f"{median} [{low_text}, {high_text}]"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if math.isnan(seconds):
        return NONE
    if seconds < 1e-3:
        return f"{tidy(seconds * 1e6, 2)} µs"
    if seconds < 1.0:
        return f"{tidy(seconds * 1e3, 2)} ms"
    return f"{tidy(seconds, 3)} s"


def p_value(p: float) -> str:
    """A p-value, as far as it matters."""
    if math.isnan(p):
        return NONE
    return "< 0.001" if p < 1e-3 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def times(log2: float) -> str:
    """How many times fewer evaluations a logarithm to base 2 stands for."""
    if math.isnan(log2):
        return NONE
    if math.isinf(log2):
        return "not reached"
    return f"{log2:+.1f} ({tidy(2.0**log2, 2)}×)".replace("-", "−")


def joined(names: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Words in a row: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
