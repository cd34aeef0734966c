"""Local buckets beside `optimal`: python -m benchmarks.local [gain | many | ceilings …].

`gain` (needs SFUMATO_DATA; `gain occ100k adult` for some tables) publishes each table both ways,
asks the same questions by the size of their true count, and lets two readers guess who know the raw
table's links: the attack `linked`, for everybody and for people singled out, and naive Bayes of all
columns with Sinkhorn's scaling inside each bucket, told whose record is whose. `expected` does the
same with the errors that the law of the plan expects, which a single release scatters about.
`many` is `gain` for a generated table of 1,500 values, where `local` must be named. `ceilings`
plans 2,000 random tables and looks at every bucket in fractions. `streaming`
(`streaming 10000000 local` for other sizes, and one way) publishes generated census records from
Parquet to Parquet, beside a plain copy. `linked` publishes 20 tables under linked-diversity and
audits them. `aware` tells what knowing the tree adds, on tables small enough to go through all of
them (see `local_aware`). `chart` draws the documents' chart from the table of figures beside it
(see `local_chart`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.local_aware import what_the_tree_tells
from benchmarks.local_chart import draw
from benchmarks.measure import cost_of, generated, own_cpu, print_table
from benchmarks.publish_speed import publish_command
from sfumato.datasets import write_dataset
from sfumato.datasets.public_files import read_adult
from sfumato.draws import Draws
from sfumato.engines.choosing import profile_for
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.operators.base import FloatArray
from sfumato.outlook.prediction import workload_errors
from sfumato.profile import BinnedCounts, ColumnBins, Histogram, Profile
from sfumato.workloads import (
    People,
    SizeClass,
    Workload,
    generate_workload,
    people_of,
    true_counts,
)
from sfumato.workloads.answers import release_answers

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
CLASSES = tuple(
    SizeClass(f"{low:,}–{high:,}" if high < 10**9 else f"above {low:,}", low, high)
    for low, high in ((1, 9), (10, 49), (50, 199), (200, 499), (500, 2000), (2001, 10**9))
)
JUDGED = slice(1, 5)  # classes from 10 to 2,000
ADULT = ["age", "workclass", "marital_status", "occupation", "race", "sex", "hours_per_week"]
CASES = [
    ("occ100k", "occupation", "l-diversity(5)"),
    ("occ100k", "occupation", "l-diversity(10)"),
    ("sal500k", "salary_class", "l-diversity(10)"),
    ("adult", "education", "beta-likeness(3)"),
]
WAYS = ("optimal", "local")


def declared(name: str, column: str) -> sf.Table:
    if name == "adult":
        table = read_adult(DATA / "adult.data", DATA / "adult.test")
        return sf.read(table.select([*ADULT, column]), quasi=ADULT, sensitive=column)
    table = pq.read_table(DATA / f"{name}.parquet")
    quasi = [each for each in table.column_names if each != column]
    return sf.read(table, quasi=quasi, sensitive=column)


def dealt_out(table: sf.Table, place: Path, buckets: int = 4000) -> float:
    """Right guesses of who deals a bucket's values to its people, by naive Bayes and Sinkhorn."""
    people = people_of(table)
    column = table.sensitive[0]
    codes, values = people.sensitive[column].codes.astype(int), len(people.sensitive[column])
    chances = np.tile(np.log(np.bincount(codes, minlength=values) + 0.5), (len(codes), 1))
    for name in table.quasi:
        quasi = people.quasi[name].codes.astype(int)
        joint = np.bincount(quasi * values + codes, minlength=(int(quasi.max()) + 1) * values)
        joint = joint.reshape(-1, values) + 0.5
        chances += np.log(joint / joint.sum(axis=0))[quasi]
    chances = np.exp(chances - chances.max(axis=1, keepdims=True))
    bucket = pq.read_table(place / "records.parquet").column("bucket").to_numpy()
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(int(bucket.max()) + 2))
    right = looked = 0
    for number in np.random.default_rng(18).permutation(int(bucket.max()) + 1)[:buckets]:
        rows = order[ends[number] : ends[number + 1]]
        fits = chances[np.ix_(rows, codes[rows])] + 1e-12
        for _ in range(20):
            fits /= fits.sum(axis=1, keepdims=True)
            fits /= fits.sum(axis=0)
        held, which = np.unique(codes[rows], return_inverse=True)
        belief = np.zeros((len(rows), len(held)))
        np.add.at(belief.T, which, fits.T)
        right += int((held[belief.argmax(axis=1)] == codes[rows]).sum())
        looked += len(rows)
    return right / looked


def asked_of(people: People, name: str, questions: int) -> Workload:
    """Conjunctions and ranges, as many of one as of the other."""
    kinds = ("conjunctions", "ranges")
    made = [
        generate_workload(people, kind, count=questions // 2, seed=18, classes=CLASSES)
        for kind in kinds
    ]
    return Workload(tuple(each for some in made for each in some.questions), name)


def _cases(names: Sequence[str]) -> list[tuple[str, str, str]]:
    return [case for case in CASES if not names or case[0] in names]


def _asked(name: str, column: str, questions: int) -> tuple[sf.Table, People, Workload, FloatArray]:
    """A table, its people, what is asked of them, and the true counts."""
    table = declared(name, column)
    people = people_of(table)
    workload = asked_of(people, name, questions)
    return table, people, workload, true_counts(workload, people).astype(np.float64)


def expected(*names: str, questions: int = 600) -> None:
    """What `gain` measures in one release, on average over releases: errors by the law of the plan,
    and right guesses of who deals buckets out, in one release each way."""
    for name, column, promise in _cases(names):
        table, people, workload, truth = _asked(name, column, questions)
        guarantee = parse_guarantee(promise)
        lines, found = [], []
        for way in WAYS:
            mechanism = parse_mechanism(way)
            profile = profile_for(table, guarantee, mechanism)
            plan = mechanism.plan(profile, guarantee, Draws.from_seed(18))
            off = workload_errors(plan, profile, people, workload) / truth
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "release"
                options = {"mechanism": way, "seed": 18, "order": "keep", "left_out": 1}
                sf.publish(table, promise, to=place, **options)
                guessed = dealt_out(table, place)
            found.append([*(float(off[each.holds(truth)].mean()) for each in CLASSES), guessed])
            blocks = 1 if plan.tree is None else plan.tree.blocks
            lines.append([way, str(blocks), *(f"{each:.3f}" for each in found[-1])])
        ratios = np.array(found[1]) / np.array(found[0])
        lines.append(["ratio", "", *(f"{ratio:.2f}" for ratio in ratios)])
        mean = f"mean ratio 10–2,000 {ratios[JUDGED].mean():.2f}"
        heads = ["", "blocks", *(each.name for each in CLASSES), "dealt out"]
        print_table(f"{name}, {column}, {promise}, expected: {mean}", heads, lines)


def gain(*names: str, questions: int = 600, asked: int = 240, targets: int = 4000) -> None:
    """Errors by size of the true count, right guesses, and how many intervals hold."""
    for name, column, promise in _cases(names):
        table, _, workload, truth = _asked(name, column, questions)
        some = np.random.default_rng(18).choice(len(truth), min(asked, len(truth)), replace=False)
        lines, errors, guessed = [], [], []
        everybody, alone = [], []
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "release"
                done = sf.publish(
                    table, promise, to=place, mechanism=way, seed=18, order="keep", left_out=1
                )
                answers = release_answers(workload, place).estimates
                off = np.abs(answers - truth) / truth
                errors.append([float(off[each.holds(truth)].mean()) for each in CLASSES])
                opened = sf.open(place)
                held = []
                for number in some:
                    answer = opened.sql(workload.questions[number].sql())
                    held.append(answer.low - 1e-6 <= truth[number] <= answer.high + 1e-6)
                (linked,) = sf.attack(table, place, attacks="linked", targets=targets, fresh=False)
                guessed.append(dealt_out(table, place))
                blocks = sum("buckets" in each for each in done.manifest.plan.get("blocks", []))
                single = linked.singled_out
                alone.append(float("nan") if single is None else single.value)
                everybody.append(linked.success.value)
                reached = (*errors[-1], everybody[-1], alone[-1], guessed[-1])
                shown = [f"{each:.3f}" for each in reached]
                lines.append([way, str(blocks or 1), *shown, f"{np.mean(held):.1%}"])
        ratios = np.array(errors[1]) / np.array(errors[0])
        told = [f"{ratio:.2f}" for ratio in ratios]
        told += [f"{found[1] / found[0]:.2f}" for found in (everybody, alone, guessed)]
        lines.append(["ratio", "", *told, ""])
        title = f"{name}, {column}, {promise}: mean ratio 10–2,000 {ratios[JUDGED].mean():.2f}"
        readers = ["linked", "singled out", "dealt out", "95 % hold"]
        heads = ["", "blocks", *(each.name for each in CLASSES), *readers]
        print_table(title, heads, lines)


def many(values: str = "1500", questions: int = 60) -> None:
    """What `publish` forgoes above `MOST_IN_BLOCKS` values, where it does not try `local`."""
    classes = CLASSES[:3]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        write_dataset("zipf", 100_000, path, 0, values=int(values), exponent=0.7)
        table = sf.read(path, quasi="age,group,city", sensitive="value")
        people = people_of(table)
        workload = generate_workload(
            people, "conjunctions", count=questions, seed=18, classes=classes
        )
        truth = true_counts(workload, people).astype(np.float64)
        lines: list[list[object]] = []
        for way in WAYS:
            place = Path(folder) / way
            began = own_cpu()
            done = sf.publish(table, "l-diversity(10)", to=place, mechanism=way, seed=18)
            published = own_cpu() - began
            began = own_cpu()
            off = np.abs(release_answers(workload, place).estimates - truth) / truth
            each = (own_cpu() - began) / len(truth)
            blocks = sum("buckets" in each for each in done.manifest.plan.get("blocks", []))
            errors = [float(off[size.holds(truth)].mean()) for size in classes]
            lines.append([way, blocks or 1, *errors, published, each])
    heads = ["", "blocks", *(size.name for size in classes), "publish, CPU s", "a question, CPU s"]
    print_table(f"100,000 people, {values} values, l-diversity(10)", heads, lines)


def random_people(rng: np.random.Generator) -> Profile:
    """The counts of up to 800 people, whose value hangs together with an age and a city."""
    rows, values, ages, cities = int(rng.integers(100, 800)), int(rng.integers(3, 12)), 24, 5
    age, city = rng.integers(0, ages, rows), rng.integers(0, cities, rows)
    score = np.exp(rng.normal(size=(values, 2)) @ np.stack([age / 12 - 1, city - 2]))
    chance = (score / score.sum(axis=0)).T.cumsum(axis=1)
    held = np.minimum((chance < rng.random(rows)[:, None]).sum(axis=1), values - 1)
    held = np.unique(held, return_inverse=True)[1]  # every value is somebody's
    values = int(held.max()) + 1
    cells, counts = np.unique((age * cities + city) * values + held, return_counts=True)
    where, value = np.divmod(cells, values)
    columns = (
        ColumnBins("age", edges=tuple(float(edge) for edge in range(1, ages))),
        ColumnBins("city", edges=tuple(float(edge) for edge in range(1, cities))),
    )
    codes = tuple(each.astype(np.uint8) for each in np.divmod(where, cities))
    whole = Histogram("s", tuple(range(values)), np.bincount(held))
    binned = BinnedCounts(columns, codes, value, counts)
    return Profile(rows, {"s": whole}, binned=binned)


def ceilings(tables: str = "2000") -> None:
    """Every bucket of random tables in fractions; none above, or the count of those that are."""
    planned = cut = broken = 0
    for number in range(int(tables)):
        profile = random_people(np.random.default_rng(number))
        promise = parse_guarantee(
            ("l-diversity(2)", "l-diversity(3)", "beta-likeness(2)", "f-privacy(theta=3)")[
                number % 4
            ]
        )
        way = parse_mechanism(("local(min=40)", "local(min=60, slack=1)")[number // 4 % 2])
        try:
            plan = way.plan(profile, promise, Draws.from_seed(number))
        except InfeasibleGuarantee:
            continue
        planned += 1
        cut += plan.tree is not None
        limits = promise.ceilings(profile.histograms["s"])
        for _, kinds in plan.contents():
            sizes = np.bincount(kinds.kinds, kinds.counts).astype(int)
            broken += sum(
                Fraction(int(count), int(sizes[kind])) > limits[value]
                for kind, value, count in zip(kinds.kinds, kinds.values, kinds.counts, strict=True)
            )
    told = f"{planned:,} planned, {cut:,} cut into blocks, {broken} above ceilings"
    print(f"{int(tables):,} tables: {told}")


def linked(rows: str = "6000", promise: str = "linked-diversity(2, share=0.8)") -> None:
    """Twenty publications under a promise against who knows the links, each audited; and its error
    beside that of l-diversity(5), on the first rows of occ100k."""
    whole = pq.read_table(DATA / "occ100k.parquet").slice(0, int(rows))
    quasi = [each for each in whole.column_names if each != "occupation"]
    table = sf.read(whole, quasi=quasi, sensitive="occupation")
    people = people_of(table)
    workload = generate_workload(people, "conjunctions", count=300, seed=18, classes=CLASSES)
    truth = true_counts(workload, people).astype(np.float64)
    lines = []
    for stated, times in ((promise, 20), ("l-diversity(5)", 1)):
        held, off = 0, []
        for _ in range(times):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "release"
                sf.publish(table, stated, to=place)
                held += sf.audit(table, place).holds
                answers = release_answers(workload, place).estimates
                off.append(np.abs(answers - truth) / truth)
        mean = np.mean(off, axis=0)
        by_class = [mean[each.holds(truth)] for each in CLASSES]
        shown = [f"{each.mean():.3f}" if len(each) else "–" for each in by_class]
        lines.append([stated, f"{held} of {times}", *shown])
    heads = ["promise", "audits hold", *(each.name for each in CLASSES)]
    print_table(f"The first {int(rows):,} people of occ100k", heads, lines)


def streaming(rows: str = "2000000", *ways: str) -> None:
    """CPU, time and memory of publishing, in all ways or in some, beside a plain copy of the same
    file."""
    source = generated("census", int(rows))
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        copy = [sys.executable, "-m", "benchmarks.copy_parquet", str(source), f"{folder}/copy"]
        runs = {"copy": copy}
        for way in ways or WAYS:
            runs[way] = publish_command(
                source, Path(folder) / way, "--guarantee", "l-diversity(5)", "--mechanism", way
            )
        base = 0.0
        for name, command in runs.items():
            cost = cost_of(command)
            base = base or cost.cpu
            ratio = cost.cpu / base
            lines.append([name, cost.cpu, ratio, cost.wall, round(cost.megabytes)])
    title = f"Publishing {int(rows):,} census records under l-diversity(5)"
    print_table(title, ["", "CPU s", "× copy", "wall s", "peak MB"], lines)


def aware() -> None:
    """What knowing the tree adds for a reader who knows no link, on all tables of some people."""
    lines = []
    for people in (2, 3, 4):
        for rounded in (1, 2, 4):
            told = what_the_tree_tells(people, rounded)
            lines.append([4 * people, rounded, f"{told.cut:.1%}", *told.shares()])
    heads = ["people", "rounded to", "tables cut", "believed", "ceiling", "above it"]
    print_table("A reader who knows the tree, l = 2, three values", heads, lines)


PARTS: dict[str, Callable[..., None]] = {
    "gain": gain,
    "many": many,
    "expected": expected,
    "ceilings": ceilings,
    "streaming": streaming,
    "linked": linked,
    "aware": aware,
    "chart": draw,
}

if __name__ == "__main__":
    if sys.argv[1:]:
        PARTS[sys.argv[1]](*sys.argv[2:])
    else:
        for part in PARTS.values():
            part()
