"""What the heterogeneous paper prints in its tables, and what its text says of its pictures."""

from __future__ import annotations

from collections.abc import Callable

from papers.heterogeneous.examples import PRINTED_BETA
from papers.steps import Claim, Found, Verdict, reproduced

REGIONS = "our NH halves classes by the values that they have, so its partitions stay small"
EVEN = "ranges are taken as evenly filled, as in the paper"


def _cells(table: str, ours: str, printed: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        pairs = list(zip(found.column(table, ours), found.column(table, printed), strict=True))
        same = sum(a == b for a, b in pairs)
        return f"{same} of {len(pairs)} rows", reproduced(same == len(pairs))

    return Claim(table, "its rows", test)


def _rounds(found: Found) -> tuple[str, Verdict]:
    rows = found.table("Table 5").rows
    columns = [{row[bucket] for row in rows} for bucket in range(1, 6)]
    return "every bucket meets every other once", reproduced(all(len(c) == 5 for c in columns))


def _distinct(found: Found) -> tuple[str, Verdict]:
    rows = found.table("Table 6").rows
    sets = [
        {str(row[start]).split()[index] for row in rows}
        for start in range(1, 6)
        for index in range(3)
    ]
    holds = sum(len(each) == 5 for each in sets)
    return f"{holds} of {len(sets)} rows have five values", reproduced(holds == len(sets))


def _beta(number: int, size: int, why: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        beta = float(found.table(f"Table {number}").note.split(" = ")[2].split(";")[0])
        return f"{beta:.4f}", reproduced(abs(beta - PRINTED_BETA[size]) < 0.011)

    return Claim(f"Table {number}", f"beta = {PRINTED_BETA[size]}", test, why)


def _gain(figure: str, other: str, printed: str, least: float, why: str) -> Claim:
    """How much more is lost by another method than by HG, at the last point."""

    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(figure)
        if not lines[other] or not lines["HG"]:
            return f"{other} could not be run", "not reproduced"
        ratio = [
            (x, dict(lines[other])[x] / y) for x, y in lines["HG"] if x in dict(lines[other]) and y
        ]
        text = ", ".join(f"{r:.2f} at {x:g}" for x, r in (ratio[0], ratio[-1]))
        return f"{other} over HG: {text}", reproduced(ratio[-1][1] >= least)

    return Claim(figure, printed, test, why)


def _order(figure: str) -> Claim:
    """HG loses least, SG and GR follow with a slight gap."""

    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(figure)
        more = [dict(lines[name])[x] / y - 1 for name in ("SG", "GR") for x, y in lines["HG"] if y]
        text = f"{100 * min(more):.0f} to {100 * max(more):.0f} % above HG"
        return text, reproduced(min(more) >= -0.02 and max(more) <= 0.1)

    return Claim(figure, "SG and GR follow HG with a slight gap", test, "H20: the gap is larger")


def _trend(figure: str, line: str, falls: bool, said: str, why: str = "") -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        points = found.lines(figure)[line]
        first, last = points[0][1], points[-1][1]
        text = f"{line}: {first:.3g} at {points[0][0]:g}, {last:.3g} at {points[-1][0]:g}"
        return text, reproduced(last < first if falls else last > first)

    return Claim(figure, said, test, why)


def _ratios(found: Found, figure: str) -> list[float]:
    lines = found.lines(figure)
    theirs = dict(lines["BuReL"])
    return [theirs[x] / y for x, y in lines["HG"] if x in theirs and y]


def _grows(found: Found) -> tuple[str, Verdict]:
    ratio = _ratios(found, "Figure 7(a)")
    return f"{ratio[0]:.2f} to {ratio[-1]:.2f} times", reproduced(ratio[-1] > ratio[0])


def _slower(found: Found) -> tuple[str, Verdict]:
    ratio = _ratios(found, "Figure 7(b)")
    return f"BuReL takes {min(ratio):.2f} to {max(ratio):.2f} of it", reproduced(max(ratio) < 1)


def _third(found: Found) -> tuple[str, Verdict]:
    more = _ratios(found, "Figure 7(c)")[0] - 1
    return f"{100 * more:.0f} % more", reproduced(more >= 0.25)


def _stable(figure: str) -> Callable[[Found], tuple[str, Verdict]]:
    def test(found: Found) -> tuple[str, Verdict]:
        times = [y for _, y in found.lines(figure)["HG"]]
        return f"HG: {min(times):.2f} to {max(times):.2f} s", reproduced(
            max(times) < 2 * min(times)
        )

    return test


CLAIMS = (
    _cells("Table 1", "age", "age (paper)"),
    _cells("Table 4", "values", "paper"),
    Claim("Table 5", "five rounds of bucket to bucket", _rounds),
    Claim("Table 6", "no row meets a value twice", _distinct),
    _beta(7, 4, ""),
    _beta(8, 5, ""),
    _beta(9, 6, ""),
    *(
        _gain(f"Figure 2({letter})", "NH", "NH loses up to 3.5 times as much at l = 10", 2, REGIONS)
        for letter in "abc"
    ),
    _order("Figure 2(a)"),
    _gain("Figure 3(a)", "NH", "NH loses more for all d", 1, REGIONS),
    _gain("Figure 3(b)", "NH", "NH loses more for d > 6 (Uniform)", 1, REGIONS),
    _gain("Figure 3(c)", "NH", "NH loses more for d > 3 (Zipfian)", 1, REGIONS),
    _gain("Figure 4(a)", "NH", "NH loses up to 3.5 times as much", 2, REGIONS),
    _trend("Figure 4(b)", "HG", True, "smaller parts cost a modest GCP"),
    _gain("Figure 4(c)", "NH", "NH loses up to 4 times as much at theta = 0.9", 2, REGIONS),
    _trend("Figure 5(a)", "HG", False, "more records take more time"),
    _trend("Figure 5(b)", "HG", False, "smaller parts take less time"),
    Claim("Figure 5(c)", "run times are stable", _stable("Figure 5(c)")),
    *(_gain(f"Figure 6({letter})", "BuReL", "HG outperforms BuReL", 1, "") for letter in "abc"),
    *(_trend(f"Figure 6({letter})", "HG", True, "all lose less as beta grows") for letter in "abc"),
    _order("Figure 6(a)"),
    Claim("Figure 7(a)", "the gap to BuReL grows with the records", _grows),
    Claim("Figure 7(b)", "HG needs more time than BuReL", _slower),
    Claim("Figure 7(c)", "BuReL loses 33 % more than HG at theta = 0.5", _third),
    *(
        _gain(
            f"Figure {number}({letter})", "BuReL", f"BuReL errs up to {times} times more", 1, EVEN
        )
        for number, times in ((8, 4), (9, 10))
        for letter in "abc"
    ),
    _trend("Figure 10(a)", "HG", True, "falls up to the largest beta"),
    _trend("Figure 10(b)", "HG", True, "falls up to the largest beta"),
    _trend("Figure 10(c)", "HG", True, "prefix ranges: as before"),
)
