"""Text for the terminal: numbers with units, and tables."""

import math
import time
from collections.abc import Mapping, Sequence

from genepool.errors import SettingsError


def amount(value: float) -> str:
    """Return a number with three digits and a prefix: 1,234,567 is "1.23 M"."""
    if value < 1000:
        return f"{value:g} "
    power = min(int(math.log10(value * 1.0005)) // 3, 6)  # 999,600 rounds up to 1 M
    return f"{value / 1000**power:.3g} {'kMGTPE'[power - 1]}"


def percent(share: float) -> str:
    """Return 0.876 as "87.6 %"."""
    return f"{100 * share:.1f} %"


def shares(values: Mapping[str, float], most: int = 8) -> str:
    """Return names with their shares, shortened if there are many: "a 12 %, b 9 %, and 3 more"."""
    shown = [f"{name} {100 * share:.0f} %" for name, share in list(values.items())[:most]]
    return ", ".join([*shown, *([f"and {len(values) - most} more"] if len(values) > most else [])])


def brief(network: str, most: int = 12) -> str:
    """Return a network in one line, shortened if it has many layers: "C3x3+BN+R C1x1 ... C3x3 (49 layers), 9 skips"."""
    backbone, comma, rest = network.partition(",")
    layers = backbone.split()
    if len(layers) <= most:
        return network
    return f"{' '.join(layers[: most // 2])} ... {layers[-1]} ({len(layers)} layers){comma}{rest}"


def numbers(text: str, form: str) -> tuple[int, ...]:
    """Parse positive integers written like the example `form`: "32x32" or "32x32x3"."""
    parts = text.lower().split("x")
    if len(parts) != form.count("x") + 1 or not all(part.isascii() and part.isdigit() for part in parts):
        raise SettingsError(f"'{text}' is not a size; write it like {form}.")
    found = tuple(int(part[:6]) for part in parts)
    if 0 in found:
        raise SettingsError(f"'{text}' is not a size: 0 is too small; write it like {form}.")
    return found


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, also_left: Sequence[int] = ()) -> str:
    """Return aligned columns: the first `left` and those in `also_left` to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if i < left or i in also_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def moment(when: float) -> str:
    """Return a time stamp as local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def span(seconds: float) -> str:
    """Return a duration in two units: "2 m 05 s"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
