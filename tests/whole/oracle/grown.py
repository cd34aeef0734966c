"""Trees of larger tables: the program's against the rule's, and `publish`'s choice.

Columns of all kinds: numbers with gaps, dates, times of day, yes and no, intervals, names of which
more than 62 or some missing. Under a promise that nothing can break no cut is refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.buckets.plan import BucketPlan
from tests.whole.oracle.buckets import CEILINGS, Case
from tests.whole.oracle.tree import Asked, Rule, cuts, law

NOTHING = "f-privacy(theta=1, floor=1)"  # is forbidden


def _column(rng: Random, kind: str, people: int) -> list[Any]:
    many = rng.choice([1, 2, 3, 9, 40, 300])
    places = rng.choices(
        range(many), [1 / (1 + n) ** rng.choice([0, 1]) for n in range(many)], k=people
    )
    day = datetime.datetime(2020, 2, 27)
    made = {
        "number": lambda n: n - 3,
        "half": lambda n: n / 8,
        "date": lambda n: (day + datetime.timedelta(days=n)).date(),
        "moment": lambda n: day + datetime.timedelta(hours=7 * n),
        "bool": lambda n: n % 3 == 0,
        "name": lambda n: f"n{n * 37 % 311}",
        "interval": lambda n: n,
    }[kind]
    missing = rng.choice([0, 0, 0.1]) if kind not in ("bool", "interval") else 0
    return [None if rng.random() < missing else made(n) for n in places]


def trees_of(seed: int) -> tuple[tuple[Asked | None, ...], tuple[Asked | None, ...]]:
    """The tree of a random table, as the program grows it and by the rule."""
    rng = Random(seed)
    people, least = rng.randint(20, 220), rng.choice([2, 5, 11, 30])
    kinds = rng.choices(
        ["number", "half", "date", "moment", "bool", "name", "interval"], k=rng.randint(1, 4)
    )
    quasi = {f"{kind} {n}": _column(rng, kind, people) for n, kind in enumerate(kinds)}
    quasi = {name: shown for name, shown in quasi.items() if any(v is not None for v in shown)}
    edges = [0, 1, 2, 5, 8, 20, 60, 400]
    intervals = [name for name in quasi if name.startswith("interval")]
    recode = {name: f"bins({', '.join(map(str, edges))})" for name in intervals}
    held = [(rng.choice("abc"),) for _ in range(people)]
    table = sf.read(
        pa.table({**quasi, "s": [value for (value,) in held]}),
        quasi=list(quasi), sensitive="s", recode=recode,
    )  # fmt: skip
    guarantee, way = parse_guarantee(NOTHING), parse_mechanism(f"local(min={least})")
    _, plan = choose_plan(profile_for(table, guarantee, way), guarantee, way, Draws.from_seed(1))
    assert isinstance(plan, BucketPlan)
    grown = tuple(cut and (cut.column, cut.below, cut.values) for cut in plan.cuts.cuts)
    for name in intervals:
        quasi[name] = [max(edge for edge in edges[:-1] if edge <= n) for n in quasi[name]]
    marks = [[(0, value)] for (value,) in held]
    rule = Rule.of(quasi, least, {(0, value): 1 for value in "abc"}, marks)  # type: ignore[dict-item]
    ((_, tree),) = law(rule, marks)
    return grown, tuple(cut and (cut[0], _stated(cut[1]), cut[2]) for cut in cuts(tree))


def _stated(edge: Any) -> Any:
    return edge.isoformat() if isinstance(edge, datetime.date) else edge


def crowd(seed: int) -> Case:
    """A thousand people of sixty Zipf-sized towns: what `publish` chooses, and whom it shows."""
    rng = Random(seed)
    people = rng.choice([700, 1000, 1300])
    weights = [1 / (1 + n) for n in range(60)]
    town = rng.choices(range(60), weights, k=people)
    age = [rng.randint(18, 90) for _ in range(people)]
    many = rng.choice([3, 8, 20])
    held = [
        (
            min(
                many - 1,
                (place % many if rng.random() < 0.3 else int(rng.paretovariate(0.6)) % many),
            ),
        )
        for place in town
    ]
    alone = [n for n, place in enumerate(town) if town.count(place) == 1]
    promise = rng.choice(list(CEILINGS))
    quasi: dict[str, Sequence[Any]] = {"town": [f"t{place:02}" for place in town], "age": age}
    return Case(quasi, tuple(held), (promise,), None, seed, alone=tuple(alone))
