"""What a change of one or two people changes in a release under the same key, file by file.

*Ceilings*: two people of one bucket have each other's value. They then stand in each other's slots
(where nobody between them in the table has one of the values), so not a byte is another, unless a
cut is refused now that was made, or the other way round: that happens to a block of their own only,
and is counted.
*Odds*: one person has another value. Where the operator follows from the promise and a stated
domain, nothing is another but what was drawn for that person.
What is fitted to counts follows from the histogram: everybody may change places.
Ranges and sets, and `sps`, state less: `oracle.matched`.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.guarantees import DEFAULT_PROMISE

PEOPLE, VALUES = 160, tuple("abcdefgh")
Columns = dict[str, list[Any]]
STATED = {"domain": {"ill": ",".join(VALUES)}}


def people(rng: Random, visits: int = 1) -> Columns:
    """One row of each person, or a few; `who` is published of none but told from `age`."""
    who = [person for person in range(PEOPLE) for _ in range(rng.randint(1, visits))]
    many = len(who)
    town = rng.choices(
        ["x", "y", "z", *(f"t{n}" for n in range(20))], [9, 6, 3, *[0.3] * 20], k=many
    )
    ages = rng.sample(range(1000), many)
    ill = rng.choices(VALUES, [8, 6, 5, 5, 4, 4, 3, 2], k=many)
    job = rng.choices("pqrstuvw", k=many)
    return {"who": who, "town": town, "age": ages, "ill": ill, "job": job}


def release(columns: Columns, to: Path, promise: Any, **options: Any) -> dict[str, bytes]:
    """The files of a release."""
    roles = {"quasi": "town,age", "sensitive": "ill", "drop": "job,who", "seed": 5, **options}
    roles = {name: value for name, value in roles.items() if value is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sf.publish(pa.table(columns), promise, to=to, **roles)
    return {str(p.relative_to(to)): p.read_bytes() for p in sorted(to.rglob("*")) if p.is_file()}


def said(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The manifest, but for the sizes and hashes of the files."""
    manifest: dict[str, Any] = json.loads(files["manifest.json"])
    for entry in manifest["files"].values():
        del entry["bytes"], entry["sha256"]
    return manifest


def rows(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "records").to_pylist()


TWO = {"sensitive": "ill,job", "drop": "who"}
CEILINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "chosen": ("l-diversity(4)", {}),
    "default": (None, {}),
    "optimal": ("beta-likeness(2)", {"mechanism": "optimal"}),
    "sizes": ("f-privacy(theta=2)", {"mechanism": "optimal(max_size=12)"}),
    "loss": ("l-diversity(4)", {"mechanism": "optimal(objective=loss)"}),
    "fakes": ("l-diversity(3)", {"mechanism": "optimal(fakes=2)"}),
    "association": ("l-diversity(3)", {"mechanism": "optimal(fakes=2, association=0.1)"}),
    "optimal(objective=two-size)": ("l-diversity(4)", {"mechanism": "optimal(objective=two-size)"}),
    "optimal(objective=multi-size)": (
        "f-privacy(theta=2)",
        {"mechanism": "optimal(objective=multi-size)"},
    ),
    "open": ("l-diversity(4, open=a)", {"left_out": 1}),
    "domain": ("l-diversity(4)", STATED),
    "recoded": ("l-diversity(4)", {"recode": {"town": "rare(3)"}}),
    "batches": ("l-diversity(4)", {"batch_rows": 7, "threads": 1}),
    "persons": ("l-diversity(3)", {"person": "who", "count_rows": "visits", "drop": "job"}),
    "two": ("l-diversity(3)", TWO),
    "by column": ({"ill": "l-diversity(3)", "job": "f-privacy(theta=2)"}, TWO),
    "joint": ("f-privacy(theta=2, floor=0.05)", {**TWO, "joint": True}),
    "local": ("l-diversity(3)", {"mechanism": "local(min=12)"}),
    "local two": ("l-diversity(2)", {**TWO, "mechanism": "local(min=12)"}),
    "local ceilings": ("f-privacy(theta=2, floor=0.05)", {"mechanism": "local(min=25)"}),
    "local columns": ("l-diversity(3)", {"mechanism": "local(min=12, columns=town)"}),
}


def exchanged(
    columns: Columns, buckets: Mapping[int, int], sensitive: list[str]
) -> Iterator[tuple[int, int]]:
    """Rows of one bucket whose exchange exchanges their slots."""
    held = list(zip(*(columns[name] for name in sensitive), strict=True))
    by_bucket: dict[int, list[int]] = {}
    for row in sorted(buckets):
        by_bucket.setdefault(buckets[row], []).append(row)
    for members in by_bucket.values():
        for one, other in itertools.combinations(members, 2):
            between = {held[row] for row in range(one + 1, other) if row in buckets}
            if held[one] != held[other] and not {held[one], held[other]} & between:
                yield one, other


def with_exchanged(columns: Columns, one: int, other: int, sensitive: list[str]) -> Columns:
    changed = {name: list(values) for name, values in columns.items()}
    for name in sensitive:
        changed[name][one], changed[name][other] = columns[name][other], columns[name][one]
    return changed


def refused_apart(name: str, number: int, tmp_path: Path) -> tuple[int, int]:
    """How many pairs exchanged their values, and how many times a cut came out otherwise."""
    rng = Random(f"{name} {number}")
    promise, options = CEILINGS[name]
    columns = people(rng, 3 if "person" in options else 1)
    promise = promise or DEFAULT_PROMISE
    before = release(columns, tmp_path / f"{number}", promise, **options)
    row_of = {age: row for row, age in enumerate(columns["age"])}
    buckets = {row_of[row["age"]]: row["bucket"] for row in rows(tmp_path / f"{number}")}
    sensitive = options.get("sensitive", "ill").split(",")
    pairs = list(exchanged(columns, buckets, sensitive))
    other = 0
    for pair in (chosen := rng.sample(pairs, min(2, len(pairs)))):
        changed = with_exchanged(columns, *pair, sensitive)
        after = release(changed, tmp_path / f"{number} {pair}", promise, **options)
        if after != before:
            assert "local" in name, (name, pair)
            assert refused(tree_of(before), tree_of(after)) == 1, (name, pair)
            other += 1
    return len(chosen), other


Tree = tuple[Any, ...]  # a cut and its sides; () is a block


def tree_of(files: Mapping[str, bytes]) -> Tree:
    nodes = iter(said(files)["plan"].get("blocks") or [{}])

    def grown() -> Tree:
        node = next(nodes)
        return (json.dumps(node), grown(), grown()) if "column" in node else ()

    return grown()


def refused(one: Tree, other: Tree) -> int:
    """In how many nodes of two trees a cut was refused in one of them; else they are the same."""
    if not (one and other):
        return int(one != other)
    assert one[0] == other[0]
    return refused(one[1], other[1]) + refused(one[2], other[2])


@pytest.mark.parametrize("name", CEILINGS)
def test_people_of_one_bucket_exchange_their_values_and_nothing_is_another(
    name: str, tmp_path: Path
) -> None:
    pairs, _ = refused_apart(name, 0, tmp_path)
    assert pairs


ODDS: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform": ("rho-privacy(0.2, 0.5)", {}),
    "theta": ("fine-rho-privacy(theta=3)", {"mechanism": "uniform"}),
    "limits": ("fine-rho-privacy(limits=a:0.1:0.4;b:0.2:0.5;c:1/3:0.6;*:0.15:0.5)", {}),
    "records": (
        "fine-rho-privacy(limits=a:0.1:0.4;b:0.2:0.5;c:1/3:0.6;*:0.15:0.5)",
        {"mechanism": "fine-grain"},
    ),
    "loose": (
        "fine-rho-privacy(limits=a:0.05:0.2;b:0.05:0.3;*)",
        {"mechanism": "fine-grain(objective=counts)"},
    ),
    "k": ("rho-privacy(0.2, 0.5)", {"quasi_k": 3}),
    "recoded": (
        "rho-privacy(0.2, 0.5)",
        {"recode": {"town": "rare(3)", "age": "bins(0, 100, 300, 1000)"}},
    ),
    "batches": ("rho-privacy(0.2, 0.5)", {"batch_rows": 7, "threads": 1}),
    "missing": ("rho-privacy(0.2, 0.5)", {"missing": "drop"}),
    "persons": (
        "rho-privacy(0.2, 0.5)",
        {"person": "who", "count_rows": "visits", "drop": "job"},
    ),
    "two": (
        "rho-privacy(0.2, 0.5)",
        {**TWO, "domain": STATED["domain"] | {"job": "p,q,r,s,t,u,v,w"}},
    ),
    "joint": (
        "rho-privacy(0.2, 0.5)",
        {**TWO, "domain": STATED["domain"] | {"job": "p,q,r,s,t,u,v,w"}, "joint": True},
    ),
}


@pytest.mark.parametrize("name", ODDS)
@pytest.mark.parametrize("keyed", [False, True])
def test_one_person_has_another_value_and_only_their_draw_may_be_another(
    name: str, keyed: bool, tmp_path: Path
) -> None:
    promise, options = ODDS[name]
    rng = Random(name)
    columns = people(rng, 3 if "person" in options else 1)
    # one value just at a limit that a case names: where a count decides, it decides here
    for row in range(len(columns["ill"])):
        columns["ill"][row] = columns["ill"][row] if row >= PEOPLE // 5 else "a"
    options = {**STATED, **options}
    if keyed:
        if "person" in options:
            pytest.skip("a key file needs a key column")
        key = tmp_path / "key"
        key.write_text(Draws.from_seed(3).reveal())
        key.chmod(0o600)
        options |= {"seed": None, "key_file": key, "key": "who", "drop": "job"}
        options["drop"] = None if "sensitive" in options else "job"
        if name == "uniform":
            release(columns, tmp_path / "previous", promise, **options)
            options["previous"] = tmp_path / "previous"
    options["receipt"] = tmp_path / "receipt"
    before = release(columns, tmp_path / "before", promise, **options)
    options["receipt"] = None
    for person in {0, *rng.sample(range(PEOPLE), 2)}:
        changed = {column: list(values) for column, values in columns.items()}
        changed["ill"][person] = rng.choice([v for v in VALUES if v != columns["ill"][person]])
        after = release(changed, tmp_path / f"after {person}", promise, **options)
        assert said(after) == said(before)
        one, other = (
            Counter(json.dumps(row, sort_keys=True) for row in rows(tmp_path / folder))
            for folder in ("before", f"after {person}")
        )
        left = [*(one - other).elements()], [*(other - one).elements()]
        assert len(left[0]) <= 1
        for row, drawn in zip(*left, strict=True):
            assert json.loads(row) | {"ill": None} == json.loads(drawn) | {"ill": None}


FITTED: dict[str, tuple[str, dict[str, Any]]] = {
    "theta": ("fine-rho-privacy(theta=2)", {"mechanism": "fine-grain(objective=counts)"}),
    "records": ("fine-rho-privacy(theta=2)", {"mechanism": "fine-grain"}),
    "partitioned": ("rho-privacy(0.2, 0.5, reader=shares)", {"mechanism": "partitioned"}),
    "splu": ("small-sum(3)", {}),
}


@pytest.mark.parametrize("name", FITTED)
def test_what_is_fitted_follows_from_the_histogram_alone(name: str, tmp_path: Path) -> None:
    """Everybody changes places, and the manifest stays as it is."""
    promise, options = FITTED[name]
    rng = Random(name)
    columns = people(rng)
    before = said(release(columns, tmp_path / "before", promise, **options))
    columns["ill"] = rng.sample(columns["ill"], PEOPLE)
    after = said(release(columns, tmp_path / "after", promise, **options))
    for manifest in (before, after):
        manifest["plan"].pop("common", None)
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CEILINGS if "local" in name])
def test_a_refused_cut_comes_out_otherwise_as_seldom_as_it_may(
    name: str, tmp_path: Path, capsys: Callable[..., Any]
) -> None:
    counted = [refused_apart(name, number, tmp_path) for number in range(30)]
    pairs, other = (sum(column) for column in zip(*counted, strict=True))
    with capsys.disabled():
        print(f"\n{name}: {other} of {pairs} exchanges change a refused cut")  # noqa: T201
    assert pairs > 30
    assert other <= pairs / 4
