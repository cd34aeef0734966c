"""What the SPLU paper says of its figures. It prints them as pictures; the text has numbers."""

from __future__ import annotations

from collections.abc import Callable

from papers.steps import Claim, Found, Verdict, below, reproduced

OURS, THEIRS = "SPLU, ours", "SPLU, paper"
BIAS = "greedy groups leave a bias, errata S5"
OTHERS = ("Anatomy", "DBR", "Laplace ln 2", "Laplace ln 3")


def _printed_bound(found: Found) -> tuple[str, Verdict]:
    chart = next(s for s in found.series if s.name == "Figure 4")
    exact, printed = chart.lines["exact"], chart.paper["as printed"]
    (least, chance), (_, bound) = exact[0], printed[0]
    text = f"at {least:g} the chance is {chance:.2f}, the printed bound {bound:.3f}"
    return text, reproduced(all(e <= p for (_, e), (_, p) in zip(exact, printed, strict=True)))


def _small_curve(found: Found) -> tuple[str, Verdict]:
    lines = found.lines("Figure 5")
    least = {name: min(chance for _, chance in points) for name, points in lines.items()}
    text = ", ".join(f"{name}: from {chance:.2f}" for name, chance in least.items())
    return text, reproduced(list(least.values()) == sorted(least.values()))


def _rises(figure: str) -> Callable[[Found], tuple[str, Verdict]]:
    def test(found: Found) -> tuple[str, Verdict]:
        ours, theirs = (found.column(figure, f"{name} mean") for name in (OURS, THEIRS))
        text = f"{theirs[0]:.1f} to {theirs[-1]:.1f} by the paper's way, {ours[0]:.1f} to "
        return f"{text}{ours[-1]:.1f} by ours", reproduced(theirs == sorted(theirs))

    return test


def _highest(figure: str) -> Callable[[Found], tuple[str, Verdict]]:
    def test(found: Found) -> tuple[str, Verdict]:
        table = found.table(figure)
        index_of = {name: table.columns.index(f"{name} mean") for name in (OURS, THEIRS, *OTHERS)}
        rows = [[float(cell or 0) for cell in row] for row in table.rows if int(row[0] or 0) >= 4]
        theirs = all(row[index_of[THEIRS]] >= max(row[index_of[o]] for o in OTHERS) for row in rows)
        ours = all(row[index_of[OURS]] >= max(row[index_of[o]] for o in OTHERS) for row in rows)
        text = f"{'highest' if theirs else 'not highest'} by the paper's way, "
        text += f"{'highest' if ours else 'not highest'} by ours"
        return text, "reproduced" if theirs else "better" if ours else "not reproduced"

    return test


def _laplace(figure: str) -> Callable[[Found], tuple[str, Verdict]]:
    def test(found: Found) -> tuple[str, Verdict]:
        error = found.column(figure, "Laplace ln 3 mean")[-1]
        ours = found.column(figure, f"{OURS} mean")[-1]
        return f"{error:.2f}, where ours has {ours:.2f}", reproduced(error < ours / 2)

    return test


def _from(figure: str, low: float, printed: float, name: str) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        table = found.table(figure)
        index = table.columns.index(name)
        errors = [
            float(row[index] or 0)
            for row in table.rows
            if float(str(row[0]).split("%")[0]) >= 100 * low
        ]
        return below(max(errors), printed, 1.2, f"at most {100 * max(errors):.1f} % by {name}")

    text = f"at most {100 * printed:.0f} % from {100 * low:g} % on"
    near = "c near the limit of eligibility is noise, errata S3"
    return Claim(figure, text, test, BIAS if name == THEIRS else near)


def _sizes(part: str, columns: slice, printed: float) -> Claim:
    def test(found: Found) -> tuple[str, Verdict]:
        last = found.table(f"Figure 9{part}").rows[-1]
        worst = max(float(cell or 0) for cell in last[1:][columns])
        return below(worst, printed, 1.2, f"at most {100 * worst:.1f} % at N = {last[0]:,}")

    share = "2 %" if columns.start else "0.5 %"
    text = f"at most {100 * printed:.0f} % from {share} on"
    return Claim(f"Figure 9{part}", text, test, BIAS)


def _above(part: str) -> Callable[[Found], tuple[str, Verdict]]:
    def test(found: Found) -> tuple[str, Verdict]:
        means = []
        for each in (part, "(a)", "(a′)"):
            row = found.table(f"Figure 9{each}").rows[-1]
            means.append(sum(float(cell or 0) for cell in row[1:]) / (len(row) - 1))
        text = f"{100 * means[0]:.0f} %, SPLU {100 * means[1]:.0f} % (the paper's way "
        return f"{text}{100 * means[2]:.0f} %)", reproduced(means[0] > max(means[1:]))

    return test


def _intervals(found: Found) -> tuple[str, Verdict]:
    errors = found.column("Section 6.2.1", "mean error")
    text = " and ".join(f"{100 * error:.1f} %" for error in errors) + " by two readings"
    return text, reproduced(min(errors) <= 0.012)


def _two_columns(found: Found) -> tuple[str, Verdict]:
    theirs = found.column("Figure 12", "iteration over 8 states")
    text = f"{100 * min(theirs):.0f} to {100 * max(theirs):.0f} % by its iteration"
    return text, reproduced(max(theirs) <= 0.2)


def _rounds(found: Found) -> tuple[str, Verdict]:
    rounds, queries = (
        found.column("Section 6.5, queries", name) for name in ("median rounds", "mean rounds")
    )
    text = f"medians {min(rounds):.0f} to {max(rounds):.0f}, means {min(queries):.0f} to "
    holds = min(rounds) <= 16 <= max(rounds) and max(queries) >= 325
    return f"{text}{max(queries):.0f} by c", reproduced(holds)


def _seconds(found: Found) -> tuple[str, Verdict]:
    table = found.table("Section 6.5")
    worst = max(float(row[2] or 0) for row in table.rows)
    text = f"at most {worst:.2f} s for {int(table.rows[0][1] or 0):,}"
    return text, "better" if worst < 5 else reproduced(worst < 10)


def _kinds(found: Found) -> tuple[str, Verdict]:
    chances = dict(
        zip(found.column("Section 8", "release"), found.column("Section 8", "chance"), strict=True)
    )
    noise, asked = chances["Laplace answers, epsilon = ln 3"], chances["decoys, groups of 5"]
    return f"chance {noise:.2f}, groups of 5 have {asked:.2f}", reproduced(noise < asked)


CLAIMS = (
    Claim("Figure 4", "the bound T_E, tiny for large sums", _printed_bound, "it is false: S1"),
    Claim("Figure 5", "the chance of a large error grows with c", _small_curve),
    Claim(
        "Section 6.2.1",
        "0.01 on average",
        _intervals,
        "which queries is not said; at c = 5 an unbiased answer has this much noise",
    ),
    Claim("Figure 7", "rises with c", _rises("Figure 7")),
    Claim(
        "Figure 7",
        "SPLU has the highest error for larger c",
        _highest("Figure 7"),
        "other methods' answers are just as far off",
    ),
    Claim("Figure 7", "Laplace noise at ln 3: quite small", _laplace("Figure 7")),
    _from("Figure 8", 0.02, 0.10, THEIRS),
    _from("Figure 8", 0.005, 0.20, THEIRS),
    _from("Figure 8", 0.02, 0.10, OURS),
    _from("Figure 8, generated", 0.02, 0.10, OURS),
    _sizes("(a)", slice(2, None), 0.10),
    _sizes("(a)", slice(0, None), 0.20),
    _sizes("(a′)", slice(0, None), 0.20),
    Claim("Figure 9(b)", "Anatomy: larger overall", _above("(b)")),
    Claim("Figure 9(c)", "DBR: larger", _above("(c)")),
    Claim("Figure 10", "as Figure 7, highest from c = 4 on", _highest("Figure 10")),
    Claim("Figure 10", "Laplace noise at ln 3: quite small", _laplace("Figure 10")),
    _from("Figure 11", 0.01, 0.30, THEIRS),
    _from("Figure 11", 0.01, 0.30, OURS),
    Claim(
        "Figure 12",
        "accuracy matches that of one column (20 %)",
        _two_columns,
        "the early stop decides the error, errata S4",
    ),
    Claim(
        "Section 6.5, queries",
        "16 rounds in the median, 325 on average",
        _rounds,
        "the paper does not say over which c",
    ),
    Claim("Section 6.5", "below 10 s for 500,000 records", _seconds),
    Claim("Section 8", "Laplace noise for ln 3 may violate small sum privacy", _kinds),
)
