"""What the thesis prints in its tables, and what its text says of its pictures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from papers.steps import Claim, Found, Verdict, below, reproduced, within


def _rounded(found: Found) -> tuple[str, Verdict]:
    same = [
        round(ours) == printed
        for name in ("p", "q")
        for ours, printed in zip(
            found.column("Table 1", name), found.column("Table 1", f"{name} (paper)"), strict=True
        )
    ]
    return f"{sum(same)} of {len(same)} cells to the digit", reproduced(all(same))


def _beside(table: str, column: str, printed: str, share: float, why: str = "") -> Claim:
    """A column within a share of the printed one; better where errors are smaller throughout."""

    def test(found: Found) -> tuple[str, Verdict]:
        ours, theirs = found.column(table, column), found.column(table, printed)
        text, verdict = within(ours, theirs, share)
        if verdict == "not reproduced" and "error" in found.table(table).title:
            smaller = all(a < b * (1 + share) for a, b in zip(ours, theirs, strict=True))
            return text, "better" if smaller else verdict
        return text, verdict

    said = f"{column}: the printed column, within {100 * share:.0f} %"
    return Claim(table, said, test, why)


def _shares(found: Found) -> tuple[str, Verdict]:
    table = found.table("Figure 15")
    occ, edu = table.rows
    text = f"OCC {occ[2]:.1f} %; EDU {edu[2]:.1f} %, {edu[4]} values below 1/30"
    holds = 6.5 <= float(occ[2] or 0) <= 7.6 and 26 <= float(edu[2] or 0) <= 28 and edu[4] == 9
    return text, reproduced(holds)


def _non_zero(found: Found) -> tuple[str, Verdict]:
    seen = found.column("Figure 16", "values of 0.1 % and more")
    return f"{seen[2]} values", reproduced(seen[2] == 9)


def _less(figure: str, title: str, ours: str, theirs: str, said: str, why: str = "") -> Claim:
    """One line below another at every point."""

    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(figure, title)
        ratio = [b / a for (_, a), (_, b) in zip(lines[ours], lines[theirs], strict=True)]
        text = f"{theirs} over {ours}: {min(ratio):.2f} to {max(ratio):.2f} times"
        return text, reproduced(min(ratio) > 1)

    return Claim(figure, said, test, why)


def _lines(found: Found) -> tuple[str, Verdict]:
    fit = dict(
        zip(
            found.column("Figure 18, lines", "method"),
            found.column("Figure 18, lines", "R²"),
            strict=True,
        )
    )
    text = ", ".join(f"{name} {fit[name]:.2f}" for name in ("partitioned", "Anatomy", "uniform"))
    return f"R²: {text}", reproduced(fit["partitioned"] > fit["Anatomy"] > fit["uniform"])


def _cloud(found: Found) -> tuple[str, Verdict]:
    off = {
        name: float(np.mean([abs(y - x) / x for x, y in points]))
        for name, points in found.lines("Figure 18").items()
    }
    text = ", ".join(f"{name} {100 * off[name]:.0f} %" for name in ("partitioned", "Anatomy"))
    return f"mean distance: {text}", reproduced(off["partitioned"] < off["Anatomy"])


def _same(found: Found) -> tuple[str, Verdict]:
    lines = found.lines("Figure 19")
    ratio = [b / a for (_, a), (_, b) in zip(lines["uniform"], lines["partitioned"], strict=True)]
    text = f"partitioned over uniform: {min(ratio):.2f} to {max(ratio):.2f} times"
    if max(ratio) < 1.05 and min(ratio) < 0.95:
        return text, "better"
    return text, reproduced(min(ratio) > 0.95 and max(ratio) < 1.05)


def _seconds(figure: str, line: str, printed: float) -> Callable[[Found], tuple[str, Verdict]]:
    def test(found: Found) -> tuple[str, Verdict]:
        every = [s.lines[line] for s in found.series if s.name == figure]
        worst = max(y for points in every for _, y in points)
        return below(worst, printed, 1.2, f"at most {worst:.2g} s")

    return test


def _utility(figure: str, title: str, printed: str, least: float) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(figure, title)
        fine, plain = ([y for _, y in lines[name]] for name in ("thesis", "uniform"))
        text = f"{min(fine):.0f} to {max(fine):.0f} %, uniform {min(plain):.0f} to {max(plain):.0f}"
        more = min(a - b for a, b in zip(fine, plain, strict=True))
        return f"{text} %", reproduced(more > 0 and max(fine) >= least)

    return Claim(figure, printed, test)


def _no_difference(found: Found) -> tuple[str, Verdict]:
    lines = found.lines("Figure 25", "0.1 %")
    ratio = [b / a for (_, a), (_, b) in zip(lines["uniform"], lines["thesis"], strict=True)]
    text = f"fine-grain over uniform: {min(ratio):.1f} to {max(ratio):.1f} times"
    return text, reproduced(min(ratio) > 0.67 and max(ratio) < 1.5)


def _falls(found: Found) -> tuple[str, Verdict]:
    plain = [y for _, y in found.lines("Figure 28")["uniform"]]
    text = f"{plain[0]:.0f} to {plain[-1]:.0f} %"
    return text, reproduced(plain == sorted(plain, reverse=True))


def _linear(found: Found) -> tuple[str, Verdict]:
    points = found.lines("Figure 30")["fine-grain"]
    m, seconds = np.array(points).T
    fit = float(np.corrcoef(m, seconds)[0, 1] ** 2)
    return f"R² of a line {fit:.3f}; {seconds[-1]:.2g} s at m = {m[-1]:,.0f}", reproduced(fit > 0.9)


EDUCATION = "how close the program drives rare values to 0 decides (T12)"
TIES = "the printed 36.5 at m = 50 is an accident of one order (Table 5's note)"
SPLIT = "the printed tables come from other samples; ties and orders decide (T8)"

CLAIMS = (
    Claim("Table 1", "p and q by m, 16 cells", _rounded),
    _beside("Table 3", "uniform", "uniform (paper)", 0.02),
    _beside("Table 3", "partitioned", "partitioned (paper)", 0.02),
    _beside("Table 4", "initial groups", "initial groups (paper)", 0.2),
    _beside("Table 4", "sub-tables", "sub-tables (paper)", 0.2, SPLIT),
    _beside("Table 4", "mean values", "mean values (paper)", 0.25, SPLIT),
    _beside("Table 4", "mean gamma", "mean gamma (paper)", 0.1),
    _beside("Table 5", "partitioned", "partitioned (paper)", 0.2, TIES),
    _beside("Table 5", "uniform", "uniform (paper)", 0.25, "few runs of a noisy mean; T17"),
    _beside("Table 6", "partitioned", "partitioned (paper)", 0.2, TIES),
    _beside("Table 6", "uniform", "uniform (paper)", 0.25, "which shares were dropped, T17"),
    Claim("Figure 15", "OCC 7 %; EDU 27 %, 9 values below 1/30", _shares, "another extract"),
    Claim("Figure 16", "9 values at lambda = 3", _non_zero),
    _less("Figure 17", "0.1 %", "partitioned", "uniform", "PP has much lower error than UP"),
    _less("Figure 17", "0.1 %", "partitioned", "Anatomy", "PP incurs less error than Ana"),
    Claim("Figure 18, lines", "PP fits best, then Ana, then UP", _lines),
    Claim("Figure 18", "PP is closest to the diagonal", _cloud),
    Claim("Figure 19", "PP degenerates into UP", _same),
    _less("Figure 19", "", "uniform", "Anatomy", "Ana has a significantly larger error"),
    Claim("Figure 20", "PP: no more than 30 s", _seconds("Figure 20", "partitioned", 30.0)),
    _utility("Figure 24", "utility", "fine-grain above uniform, up to almost 60 %", 50),
    Claim("Figure 25", "no significant difference", _no_difference, EDUCATION),
    _beside("Table 8", "fine-grain, thesis", "fine-grain (paper)", 0.25, EDUCATION),
    _beside("Table 8", "uniform", "uniform (paper)", 0.25, "few runs of a noisy mean"),
    _beside("Table 8", "fine-grain, counts", "fine-grain (paper)", 0.25),
    _beside("Table 9", "fine-grain, thesis", "fine-grain (paper)", 0.25, EDUCATION),
    _beside("Table 9", "uniform", "uniform (paper)", 0.25, "few runs of a noisy mean"),
    _utility("Figure 26", "utility", "fine-grain above uniform", 0),
    _beside("Table 10", "fine-grain, thesis", "fine-grain (paper)", 0.25),
    _beside("Table 10", "uniform", "uniform (paper)", 0.25),
    _utility("Figure 27", "utility", "fine-grain above uniform", 0),
    _utility("Figure 28", "utility", "fine-grain rises to near 100 %", 90),
    Claim("Figure 28", "uniform falls", _falls),
    Claim("Figure 29", "less than 1 s", _seconds("Figure 29", "fine-grain", 1.0)),
    Claim("Figure 30", "linear in m, at most 1 s", _linear),
)
