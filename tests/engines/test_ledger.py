"""A ledger refuses what releases of the same people would tell beyond its promise.

That nobody concludes more than the promise is enumerated in `tests/whole`; here are the rules
by which it counts.
"""

from __future__ import annotations

import errno
import json
import stat
from collections import defaultdict
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.draws import Draws, Persons
from sfumato.engines.ledger import _HEADER
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.release import Release

VALUES = [f"v{number}" for number in range(10)]
ALL = "rho-privacy(0.12, 0.5)"  # odds may rise 22/3 times in all
EACH = "rho-privacy(0.12, 0.2)"  # and 11/6 times in each: three times, not four
KEYED = {"quasi": "age", "sensitive": "job", "key": "row", "mechanism": "uniform",
         "domain": {"job": ",".join(VALUES)}}  # fmt: skip


@pytest.fixture(scope="module")
def aged() -> pa.Table:
    jobs = np.array(VALUES)[np.random.default_rng(2).integers(0, 10, 3000)]
    return pa.table({"row": range(3000), "job": jobs, "age": [30] * 3000})


@pytest.fixture
def enter(tmp_path: Path) -> Any:
    """Publish into one ledger; the notes, joined."""
    releases = iter(range(100))

    def publish(table: pa.Table, guarantee: str = EACH, **options: Any) -> str:
        given = {**KEYED, "ledger_promise": ALL, **options}
        to = tmp_path / f"release {next(releases)}"
        done = sf.publish(table, guarantee, to=to, ledger=tmp_path / "ledger", **given)
        return " ".join(done.notes)

    return publish


@pytest.mark.parametrize(
    ("roles", "whom"),
    [({}, "3,000 of 3,000 people"), ({"key": None, "drop": "row"}, "everybody")],
)
def test_what_is_left_can_be_used(
    aged: pa.Table, enter: Any, roles: dict[str, Any], whom: str
) -> None:
    enter = partial(enter, **roles)
    for _ in range(3):
        enter(aged)
    with pytest.raises(InfeasibleGuarantee, match=rf"for {whom} .* leaves, a factor of 1.19"):
        enter(aged)
    odds = Fraction(22, 3) / Fraction(11, 6) ** 3 * Fraction(12, 88)
    assert "a factor of 1 in" in enter(aged, f"rho-privacy(0.12, {odds / (1 + odds)})")


def moved_on(table: pa.Table, stages: int = 1) -> pa.Table:
    later = [VALUES[(VALUES.index(job) + stages) % 10] for job in table["job"].to_pylist()]
    return table.set_column(table.schema.get_field_index("job"), "job", pa.array(later))


def test_people_whose_value_changed_are_not_shown_by_it(
    aged: pa.Table, enter: Any, key_file: Path, tmp_path: Path
) -> None:
    enter(aged, key_file=key_file)
    before = (tmp_path / "ledger").read_bytes()
    some = pa.concat_tables([aged.slice(0, 2990), moved_on(aged.slice(2990))])
    for changes, number in (
        ({"table": moved_on(aged)}, "3,000"),
        ({"table": some}, "10"),
        ({"guarantee": ALL}, "3,000"),
        ({"domain": {"job": ",".join([*VALUES, "v10"])}}, "3,000"),
    ):
        with pytest.raises(InfeasibleGuarantee, match=f"{number} of 3,000 people would be drawn a"):
            enter(**{"table": aged, "key_file": key_file, **changes})
    assert (tmp_path / "ledger").read_bytes() == before
    assert len(list(tmp_path.glob("release *"))) == 1
    assert "a factor of 2.182" in enter(some)  # afresh: charged to everybody
    assert "a factor of 2.182" in enter(aged, key_file=key_file)  # as before


def test_an_honest_series_stays_at_one_draw(aged: pa.Table, enter: Any, key_file: Path) -> None:
    """A tenth of the people leave and as many come; ids that all are others are other people."""
    everybody = pa.table({"row": range(9000), "job": aged["job"].to_pylist() * 3,
                          "age": [30] * 9000})  # fmt: skip
    for number in range(9):
        said = enter(everybody.slice(300 * number, 3000), key_file=key_file)
        assert "a factor of 4 in" in said
        assert ("300 of 3,000 people are new to it" in said) == (number > 0)
    assert "a factor of 4 in" in enter(everybody.slice(0, 3000), key_file=key_file)
    half = pa.array([*range(1500), *range(10_000, 11_500)])
    said = enter(everybody.slice(0, 3000).set_column(0, "row", half), key_file=key_file)
    assert "1,500 of 3,000 people are new to it: under another key than before somebody" in said


def test_names_of_columns_are_said(aged: pa.Table, enter: Any, key_file: Path) -> None:
    enter(aged, key_file=key_file)
    work = aged.rename_columns(["row", "work", "age"])
    roles = {"sensitive": "work", "domain": {"work": ",".join(VALUES)}, "key_file": key_file}
    with pytest.raises(UsageError, match="no column 'work' but job"):
        enter(work, **roles)
    assert "a factor of 2.182" in enter(work, **roles, ledger_column={"work": "job"})
    assert "a factor of 2.182" in enter(work, **roles)  # the name is known now
    other = aged.rename_columns(["row", "past job", "age"])
    roles = {"sensitive": "past job", "domain": {"past job": ",".join(VALUES)}}
    assert "4 in 'past job'" in enter(other, **roles, ledger_column={"past job": "new"})


def test_every_person_is_counted_alone(tmp_path: Path, enter: Any) -> None:
    """Random histories against a model of ten lines."""
    keys = {}
    for name, digits in (("K", "5a0123456789bcde"), ("L", "0f1e2d3c4b5a6978")):
        keys[name] = tmp_path / name
        keys[name].write_text(4 * digits)
    rng, limit = np.random.default_rng(4), Fraction(22, 3)
    others = [{"row": f"x{n}", "job": VALUES[n % 10], "age": 1} for n in range(20)]
    drawn: dict[str, list[float]] = defaultdict(list)
    marks: dict[tuple[str, str], str] = {}
    outcomes = set()
    for _ in range(40):
        name = str(rng.choice(["", "K", "K", "L"]))
        here = {f"p{n}": VALUES[rng.integers(0, 9) // 8] for n in rng.permutation(12)[:8]}
        moved = [p for p in here if name and marks.get((name, p), here[p]) != here[p]]
        new = [p for p in here if not name or (name, p) not in marks]
        over = [p for p in new if prod([*drawn[p], Fraction(11, 6)]) > limit]
        table = pa.Table.from_pylist([
            *({"row": p, "job": job, "age": 1} for p, job in here.items()),
            *({**other, "row": f"{other['row']} {len(marks)} {len(outcomes)} {rng.random()}"}
              for other in others),
        ])  # fmt: skip
        if moved or over:
            why = "would be drawn another time" if moved else "it draws more"
            with pytest.raises(InfeasibleGuarantee, match=f"{len(moved or over)} of 28 .*{why}"):
                enter(table, key_file=keys.get(name))
        else:
            enter(table, key_file=keys.get(name))
            for p in new:
                drawn[p].append(Fraction(11, 6))
                marks.update({(name, p): here[p]} if name else {})
        outcomes.add("moved" if moved else "over" if over else "passed")
    assert outcomes == {"moved", "over", "passed"}


@pytest.mark.parametrize(
    ("guarantee", "options", "complaint"),
    [
        (
            "fine-rho-privacy(theta=2)",
            {"mechanism": "fine-grain"},
            "its operator was fitted to counts",
        ),
        (
            "rho-privacy(0.12, 0.2)",
            {"mechanism": "partitioned"},
            "'partitioned': who is in which part",
        ),
        ("small-sum(4)", {"mechanism": "splu"}, "decoys are other people's"),
        ("reconstruction-privacy(0.3, 0.3)", {"mechanism": "sps"}, "who is sampled"),
        (
            "l-diversity(3)",
            {"mechanism": "optimal"},
            "releases of the same people can be intersected",
        ),
        (EACH, {"domain": None}, "The domain of column 'job' follows from who is in the table"),
        (EACH, {"ledger_promise": EACH}, "cannot be for another promise"),
        (EACH, {"ledger": None}, "needs its ledger="),
    ],
)
def test_what_no_product_covers_is_refused(
    aged: pa.Table, tmp_path: Path, guarantee: str, options: dict[str, Any], complaint: str
) -> None:
    ledger = tmp_path / "ledger"
    sf.publish(aged, EACH, to=tmp_path / "one", ledger=ledger, ledger_promise=ALL, **KEYED)
    before = ledger.read_bytes()
    given = {**KEYED, "ledger": ledger, "ledger_promise": ALL, **options}
    with pytest.raises(UsageError, match=complaint):
        sf.publish(aged, guarantee, to=tmp_path / "r", **given)
    assert ledger.read_bytes() == before
    assert not (tmp_path / "r").exists()


def test_values_have_limits_of_their_own(aged: pa.Table, tmp_path: Path) -> None:
    """The largest γ is far above the smallest limit: the release is one by its own promise."""
    limits = "fine-rho-privacy(limits='v0:0.12:0.2;*:0.12:0.5')"
    given = {**KEYED, "mechanism": "fine-grain(objective=counts)", "ledger": tmp_path / "ledger"}
    done = sf.publish(aged, limits, to=tmp_path / "one", **given)
    assert "a factor of 1 in" in " ".join(done.notes)


def test_buckets_of_the_same_people_are_published_once(aged: pa.Table, enter: Any) -> None:
    given = {"mechanism": "optimal", "domain": None, "ledger_promise": None}
    enter(aged.slice(0, 1500), "l-diversity(3)", **given)
    enter(aged.slice(1500), "l-diversity(3)", **given)
    ids = pa.array([*range(10), *range(5000, 5990)])
    again = aged.slice(0, 1000).set_column(0, "row", ids)
    with pytest.raises(InfeasibleGuarantee, match=r"for 10 of 1,000 people it draws more"):
        enter(again, "l-diversity(3)", **given)
    with pytest.raises(UsageError, match="one release of everybody in buckets or ranges"):
        enter(aged, ledger_promise=None)


def test_without_the_key_file_a_ledger_tells_no_value(
    aged: pa.Table, enter: Any, key_file: Path, tmp_path: Path
) -> None:
    """With everything that stands in it as a key, all values are equally good guesses."""
    enter(aged, key_file=key_file)
    assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o600
    secret = msgspec.json.decode(pq.read_metadata(tmp_path / "ledger").metadata[_HEADER])["secret"]
    rows = pq.read_table(tmp_path / "ledger")
    who, held, marks = (column.to_numpy() for column in rows.columns)
    assert len(np.unique(held)) == 1
    assert len(np.unique(marks)) == 3000  # equal values do not show
    assert (who[1:] > who[:-1]).all()  # nor does the order of the table
    operator = Release(tmp_path / "release 0").operators["job"].to_json()

    def right(key: Draws) -> list[int]:
        """How many people's marks a guess of each value gives."""
        words = key.persons("value", [repr(value).encode() for value in VALUES]).blocks[:, 0]
        drawn = json.dumps([operator, VALUES], sort_keys=True)
        people = [Persons(np.column_stack([who, np.full(3000, word)])) for word in words]
        return [int((key.words(drawn, one) == marks).sum()) for one in people]

    jobs = aged["job"].to_pylist()
    own = Draws.from_key_file(key_file).child("ledger job")
    assert right(own) == [jobs.count(value) for value in VALUES]  # this is how they are made
    for known in (secret, rows.schema.names[2]):
        key = Draws.repeated(known, "system")
        assert right(key) == right(key.child("ledger job")) == [0] * 10
    assert key_file.read_bytes().strip() not in (tmp_path / "ledger").read_bytes()


def test_a_full_disk_is_the_ledgers(
    aged: pa.Table, enter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(aged)
    before = sorted(path.name for path in tmp_path.iterdir()), (tmp_path / "ledger").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(DataError, match=r"Cannot write the ledger to .*ledger': No space left"):
        enter(aged)
    assert (sorted(path.name for path in tmp_path.iterdir()),
            (tmp_path / "ledger").read_bytes()) == before  # fmt: skip


def test_only_ledgers_are_read(aged: pa.Table, tmp_path: Path) -> None:
    pq.write_table(aged, tmp_path / "table")
    (tmp_path / "text").write_text('{"ledger": 2}')
    for name in ("table", "text"):
        (tmp_path / name).chmod(0o600)
        with pytest.raises(DataError, match="not a file that 'publish --ledger' of this version"):
            sf.publish(aged, EACH, to=tmp_path / "r", ledger=tmp_path / name, **KEYED)
    with pytest.raises(UsageError, match="would lie in the release"):
        sf.publish(aged, EACH, to=tmp_path / "r", ledger=tmp_path / "r" / "x", **KEYED)
