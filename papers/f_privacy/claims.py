"""What the F'-privacy paper says of its figures: they are pictures, its text has numbers."""

from __future__ import annotations

from papers.steps import Claim, Found, Verdict, below, reproduced, within

PRINTED_SHARES = (0.18, 7.5, 0.44, 27.3)  # least and most, OCC and EDU, in %
NOT_POSSIBLE = {"OCC": 14, "EDU": 4}  # from which l on there is no l-diversity
SLIGHTLY = 0.1  # our reading of the word


def _shares(found: Found) -> tuple[str, Verdict]:
    ours = [share for row in found.table("Figure 2").rows for share in row[2:]]
    text = " / ".join(f"{float(share or 0):.2f} %" for share in ours)
    return text, within([float(share or 0) for share in ours], PRINTED_SHARES, 0.1)[1]


def _diversity(found: Found) -> tuple[str, Verdict]:
    rows = found.table("Figure 3").rows
    agree = [(row[3] == "no") == (int(row[2] or 0) >= NOT_POSSIBLE[str(row[0])]) for row in rows]
    none = sum(row[3] == "no" for row in rows)
    return f"not possible in {none} of {len(rows)} settings", reproduced(all(agree))


def _anatomy(found: Found) -> tuple[str, Verdict]:
    ratios = [float(row[2] or 0) / float(row[3] or 1) for row in found.table("Figure 4").rows]
    text = f"Anatomy over TwoSize: {min(ratios):.1f} to {max(ratios):.1f} times"
    return text, reproduced(min(ratios) > 1)


def _slightly(first: int, second: int, names: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        rows = found.table("Figure 4").rows
        more = [float(row[first] or 0) / float(row[second] or 1) - 1 for row in rows]
        text = f"{100 * min(more):.0f} to {100 * max(more):.0f} % above"
        return text, reproduced(max(more) <= SLIGHTLY)

    return Claim("Figure 4", f"{names}: only slightly higher", test, "it hangs on histograms, F13")


def _error(data: str, printed: float, column: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        worst = max(found.column("Figure 5", column, data=data))
        return below(worst, printed, 1.2, f"{100 * worst:.1f} % by {column}")

    text = f"{data}: at most {100 * printed:.0f} % by the paper's estimate"
    why = "fewer records than 300,000; which queries were dropped is not said (F16)"
    return Claim("Figure 5", text, test, why)


def _runtime_order(figure: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        rows = [row for row in found.table(figure).rows if row[2] is not None]
        holds = all(
            float(row[4] or 0) <= float(row[3] or 0) <= float(row[2] or 0) * 1.1 for row in rows
        )
        gain = [float(row[2] or 0) / max(float(row[4] or 0), 1e-4) for row in rows]
        return f"Full-pruning {min(gain):.0f} to {max(gain):.0f} times faster", reproduced(holds)

    return Claim(figure, "Full-pruning takes the least time, No-pruning the most", test)


def _growth(found: Found) -> tuple[str, Verdict]:
    texts, holds = [], []
    for data in ("OCC", "EDU"):
        plain, full = (
            found.column("Figure 6", name, data=data) for name in ("No-pruning", "Full-pruning")
        )
        texts.append(f"{data}: {plain[-1] / plain[0]:.1f} and {full[-1] / full[0]:.1f} times")
        holds.append(full[-1] / full[0] < plain[-1] / plain[0])
    return "; ".join(texts), reproduced(all(holds))


def _values(found: Found) -> tuple[str, Verdict]:
    texts, holds = [], []
    for data in ("OCC", "EDU"):
        program = found.column("Figure 7", "Optimal", data=data)
        full = found.column("Figure 7", "Full-pruning", data=data)
        first, last = (t if isinstance(t, str) else f"{t:.2f} s" for t in (program[0], program[-1]))
        texts.append(f"{data}: {first} and {last}; {full[-1]:.2f} s")
        stopped = isinstance(program[-1], str)
        holds.append(stopped or (not isinstance(program[0], str) and program[-1] > program[0]))
    return "; ".join(texts), reproduced(all(holds))


CLAIMS = (
    Claim(
        "Figure 2",
        "OCC 0.18 to 7.5 %, EDU 0.44 to 27.3 % (300,000 records)",
        _shares,
        "fewer records here",
    ),
    Claim("Figure 3", "no l-diversity from l = 14 (OCC), l = 4 (EDU) on: in most", _diversity),
    Claim("Figure 4", "Anatomy has a significantly higher MSE in all settings", _anatomy),
    _slightly(3, 4, "TwoSize over MultiSize"),
    _slightly(4, 5, "MultiSize over Optimal"),
    *(
        claim
        for column in ("Optimal", "Optimal, shrunk")
        for claim in (_error("OCC", 0.10, column), _error("EDU", 0.10, column))
    ),
    _runtime_order("Figure 6"),
    Claim("Figure 6", "|T| hardly matters to Full-pruning, and does to No-pruning", _growth),
    _runtime_order("Figure 7"),
    Claim("Figure 7", "Optimal grows quickly with |SA|, Full-pruning little", _values),
)
