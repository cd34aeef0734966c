"""What the reconstruction-privacy paper prints, and what its text says of its pictures."""

from __future__ import annotations

from papers.reconstruction.figures import PRINTED_ADULT, PRINTED_CENSUS
from papers.steps import Claim, Found, Verdict, reproduced


def _ratio(found: Found) -> tuple[str, Verdict]:
    """The printed confidences are single draws: quartiles tell whether they could be."""
    table = found.table("Table 1")
    rows = [dict(zip(table.columns, map(float, row), strict=True)) for row in table.rows]  # type: ignore[arg-type]
    off = [row["paper: of x"] / row["E|error| of x"] for row in rows]
    text = f"printed errors are {min(off):.1f} to {max(off):.1f} times those of such noise"
    return text, reproduced(max(off) < 1.5)


def _indicator(found: Found) -> tuple[str, Verdict]:
    same = found.column("Table 2", "as printed")
    return f"{same.count('yes')} of {len(same)} rows to the digit", reproduced("no" not in same)


def _domains(name: str, printed: tuple[tuple[int, ...], int, int]) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        row = next(row for row in found.table(name).rows if row[0] == "after")
        ours = row[1 : 1 + len(printed[0])]
        return ", ".join(map(str, ours)), reproduced(ours == printed[0])

    text = ", ".join(map(str, printed[0]))
    return Claim(name, f"{text} values after merging", test, "fewer records than the paper's (R7)")


def _limit(name: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(name)
        falls = all(
            [y for _, y in points] == sorted((y for _, y in points), reverse=True)
            for line, points in lines.items()
            if line.startswith("s_g")
        )
        half = lines["s_g, p = 0.5"]
        text = f"p = 0.5: {half[0][1]:.0f} at f = {half[0][0]:g}, {half[-1][1]:.0f} at "
        return f"{text}{half[-1][0]:g}", reproduced(falls)

    return Claim(name, "s_g falls as the largest share f grows", test)


def _at_defaults(found: Found, figure: str, line: str) -> float:
    return next(y for x, y in found.lines(f"{figure}, p")[line] if x == 0.5)


def _violations(figure: str, printed: str, least: tuple[float, float]) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        groups, records = (_at_defaults(found, figure, f"{v}, chernoff") for v in ("v_g", "v_r"))
        text = f"v_g = {100 * groups:.0f} %, v_r = {100 * records:.0f} %"
        return text, reproduced(groups >= least[0] and records >= least[1])

    why = "not explained; by the exact chances nearly every group is exposed (R1)"
    return Claim(f"{figure}, p", printed, test, why)


def _few_groups(found: Found) -> tuple[str, Verdict]:
    groups, records = (_at_defaults(found, "Figure 4", f"{v}, chernoff") for v in ("v_g", "v_r"))
    text = f"v_g = {100 * groups:.0f} %, v_r = {100 * records:.0f} %"
    return text, reproduced(groups < 0.5 < records)


def _growth(study: str, figure: str, most: float) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(f"{figure}, p")
        growth = [
            theirs / plain - 1
            for (_, theirs), (_, plain) in zip(lines["paper"], lines["uniform"], strict=True)
        ]
        text = f"{100 * min(growth):.0f} to {100 * max(growth):.0f} % by its own sizes s_g"
        return text, reproduced(max(growth) <= most)

    text = f"{study}: sampling adds at most about {100 * most:.0f} % of error"
    return Claim(f"{figure}, p", text, test, "sampling inflates variances by |g|/s_g (R12)")


def _rises(figure: str, letter: str, name: str) -> Claim:
    """λ and δ: a wider error or a smaller chance asked for exposes more groups."""

    def test(found: Found) -> tuple[str, Verdict]:
        points = [y for _, y in found.lines(f"{figure}, {letter}")["v_g, chernoff"]]
        text = f"{100 * points[0]:.0f} to {100 * points[-1]:.0f} % of groups"
        return text, reproduced(points == sorted(points))

    return Claim(f"{figure}, {letter}", f"{name}: by Equation 10 rises with {letter}", test)


def _cost(figure: str, letter: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(f"{figure}, {letter}")
        more = [
            theirs - plain
            for (_, theirs), (_, plain) in zip(lines["paper"], lines["uniform"], strict=True)
        ]
        text = f"{100 * min(more):.1f} to {100 * max(more):.1f} points more"
        return text, reproduced(min(more) >= 0)

    return Claim(f"{figure}, {letter}", "SPS has more error than UP in all settings", test)


def _summary(study: str, most: float) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        growth = found.column(f"{study}, defaults", "growth")
        text = f"{100 * growth[1]:.0f} % (its s_g), {100 * growth[2]:.0f} % (ours, Chernoff)"
        return text, reproduced(growth[1] <= most)

    text = f"growth of at most {100 * most:.0f} % at the defaults"
    return Claim(f"{study}, defaults", text, test, "variances grow by |g|/s_g (R12)")


def _by_size(figure: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        lines = found.lines(f"{figure}, |D|")
        points = [y for _, y in lines["v_g, chernoff" if figure == "Figure 4" else "paper"]]
        ends = points[0], points[-1]
        text = f"{100 * ends[0]:.0f} % to {100 * ends[1]:.0f} %"
        return text, reproduced(ends[0] < ends[1] if figure == "Figure 4" else ends[0] > ends[1])

    said = "more violations" if figure == "Figure 4" else "smaller errors of SPS"
    why = "more records are merged less, so that groups are not larger (R7)"
    return Claim(f"{figure}, |D|", f"{said} with more records", test, why)


CLAIMS = (
    Claim("Table 1", "errors of two answers at three ε", _ratio, "not Laplace noise of 2/ε (R11)"),
    Claim("Table 2", "2(b/x)², 20 cells", _indicator),
    _domains("Table 4", PRINTED_ADULT),
    _domains("Table 5", PRINTED_CENSUS),
    _limit("Figure 1, ADULT"),
    _limit("Figure 1, CENSUS"),
    _violations("Figure 2", "v_g = 85 %, v_r above 99 % at the defaults", (0.80, 0.985)),
    _rises("Figure 2", "λ", "ADULT"),
    _rises("Figure 2", "δ", "ADULT"),
    _growth("ADULT", "Figure 3", 0.5),
    _cost("Figure 3", "λ"),
    _cost("Figure 3", "δ"),
    _summary("ADULT", 0.5),
    Claim("Figure 4, p", "a small number of groups covers most records", _few_groups),
    _rises("Figure 4", "λ", "CENSUS"),
    _rises("Figure 4", "δ", "CENSUS"),
    _growth("CENSUS", "Figure 5", 0.1),
    _cost("Figure 5", "λ"),
    _cost("Figure 5", "δ"),
    _summary("CENSUS", 0.1),
    _by_size("Figure 4"),
    _by_size("Figure 5"),
)
