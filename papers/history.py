"""What a history of releases of the same people reveals: the averaging attack.

The adversary follows everybody from release to release (rows keep their places here, the worst
case), knows how common each value is, and reads every operator in its manifest. Fresh draws are
independent votes on a person's true value, and each release adds one. Draws under a key file
repeat: a release that shows the same again adds nothing.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.attacks.intervals import Interval, wilson
from sfumato.attacks.people import People, pick, read_people
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.engines.counting import take_profile
from sfumato.engines.publishing import publish
from sfumato.errors import UsageError
from sfumato.operators.base import FloatArray
from sfumato.release import Release
from sfumato.table import Table, read

PERSON = "sfumato_person"  # the key column of the simulation


@dataclass(frozen=True)
class History:
    """How often the adversary names the true value, after 1, 2, … releases."""

    column: str
    guarantee: str
    mechanism: str
    key_file: bool
    people: int
    prior: float  # the best guess without any release
    accuracy: tuple[Interval, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "guarantee": self.guarantee,
            "mechanism": self.mechanism,
            "key_file": self.key_file,
            "people": self.people,
            "prior": self.prior,
            "accuracy": [interval.to_json() for interval in self.accuracy],
        }

    def __str__(self) -> str:
        draws = "one key file" if self.key_file else "fresh draws each time"
        lines = [
            f"{self.people:,} people, {self.guarantee} by {self.mechanism}, {draws}",
            f"  before any release  {100 * self.prior:.1f} %",
        ]
        lines += [
            f"  after {number:<3} release{'s' if number > 1 else ' '}  {interval}"
            for number, interval in enumerate(self.accuracy, 1)
        ]
        return "\n".join(lines)


def simulate_history(
    table: Table,
    guarantee: str,
    *,
    releases: int = 24,
    key_file: bool,
    mechanism: str = "uniform",
    seed: int = 0,
) -> History:
    """Publish the same people again and again, and let the adversary add up what they see.

    >>> rows = [f"v{i * i % 397 % 5}" for i in range(400)]
    >>> people = read(pa.table({"s": rows}), quasi="", sensitive="s")
    >>> fresh = simulate_history(people, "rho-privacy(0.2, 0.5)", releases=9, key_file=False)
    >>> keyed = simulate_history(people, "rho-privacy(0.2, 0.5)", releases=9, key_file=True)
    >>> fresh.accuracy[0].value < fresh.accuracy[8].low, keyed.accuracy[0] == keyed.accuracy[8]
    (True, True)
    """
    if releases < 1:
        raise UsageError(f"'releases' must be at least 1. Got {releases} instead.")
    people, draws = _people(table), Draws.from_seed(seed)
    shares = np.bincount(people.truth, minlength=people.values) / len(people)
    with np.errstate(divide="ignore"):
        belief = np.tile(np.log(shares), (len(people), 1))
    accuracy, last = [], None
    with tempfile.TemporaryDirectory() as folder:
        series = _published(table, people, guarantee, mechanism, key_file, seed, Path(folder))
        for number, release in zip(range(releases), series, strict=False):
            shown, matrix = _seen(release, people.column)
            news = np.ones(len(shown), np.bool_) if last is None else shown != last
            with np.errstate(divide="ignore"):
                votes = np.log(matrix).T  # row y: how likely each true value is shown as y
            told = news if release.manifest.randomness == "key-file" else slice(None)
            belief[told] += votes[shown[told]]
            last = shown
            guess = pick(belief, shares, draws, f"guess {number}")
            accuracy.append(wilson(int((guess == people.truth).sum()), len(people)))
    return History(
        people.column,
        release.manifest.guarantee,
        release.manifest.mechanism,
        key_file,
        len(people),
        people.prior,
        tuple(accuracy),
    )


@dataclass(frozen=True)
class Noticed:
    """Whose value changed between two releases under one key file, and who is seen to change."""

    people: int
    changed: int
    seen: int  # of those who changed
    seen_unchanged: int  # of those who did not


def notice_changes(
    table: Table,
    guarantee: str,
    *,
    share: float = 0.1,
    mechanism: str = "uniform",
    seed: int = 0,
) -> Noticed:
    """Give a share of the people another value, publish again, and compare."""
    people, draws = _people(table), Draws.from_seed(seed).child("changes")
    changed = draws.choose("who", len(people), round(share * len(people)))
    occurring, places = np.unique(people.truth, return_inverse=True)
    if len(occurring) < 2:
        raise UsageError(f"Everybody has the same value of {people.column!r}: nothing can change.")
    steps = 1 + draws.below("to what", Positions(0, len(changed)), len(occurring) - 1)
    truth = people.truth.copy()
    truth[changed] = occurring[(places[changed] + steps) % len(occurring)]
    shown = []
    with tempfile.TemporaryDirectory() as folder:
        for number, codes in enumerate((people.truth, truth)):
            place = Path(folder) / str(number)
            place.mkdir()
            series = _published(
                table, _with_truth(people, codes), guarantee, mechanism, True, seed, place
            )
            shown.append(_seen(next(series), people.column)[0])
    moved: BoolArray = shown[0] != shown[1]
    whose = np.zeros(len(people), np.bool_)
    whose[changed] = True
    return Noticed(len(people), int(whose.sum()), int(moved[whose].sum()), int(moved[~whose].sum()))


def _people(table: Table) -> People:
    if len(table.sensitive) != 1:
        raise UsageError("The simulation follows one sensitive column. Declare the others as drop.")
    return read_people(table, table.sensitive[0])


def _with_truth(people: People, codes: IntArray) -> People:
    """The people with other true values: those of others, who had them."""
    assert people.records is not None
    codes_there, first = np.unique(people.truth, return_index=True)
    having = first[np.searchsorted(codes_there, codes)]
    values = people.records.column(people.column).take(pa.array(having))
    place = people.records.schema.names.index(people.column)
    records = people.records.set_column(place, people.column, values)
    return People(
        people.rows, people.domains, people.codes, people.column, people.values, codes, records
    )


def _published(
    table: Table,
    people: People,
    guarantee: str,
    mechanism: str,
    key_file: bool,
    seed: int,
    folder: Path,
) -> Iterator[Release]:
    """One release after the other; each is gone when the next one is made."""
    assert people.records is not None
    numbers = pa.array(np.arange(len(people)))
    declared = read(
        people.records.append_column(PERSON, numbers),
        quasi=table.quasi,
        sensitive=table.sensitive,
        key=PERSON,
        numeric=[name for name, kind in table.kinds.items() if kind == "numeric"],
        categorical=[name for name, kind in table.kinds.items() if kind == "categorical"],
        domain=_domain(table),
        missing=table.missing,
    )
    key = folder / "steward.key"
    key.write_text(hashlib.sha256(f"history {seed}".encode()).hexdigest(), encoding="ascii")
    number = 0
    while True:
        place = folder / f"release {number}"
        randomness = {"key_file": key} if key_file else {"seed": seed * 1_000_003 + number}
        publish(declared, guarantee, to=place, mechanism=mechanism, order="keep", **randomness)
        yield Release(place, verify=False)
        number += 1


def _domain(table: Table) -> dict[str, list[Any]]:
    """The sensitive domain as it is now, so that it is the same in every release."""
    return {
        column: [value for value in histogram.values if value is not None]
        for column, histogram in take_profile(table).histograms.items()
    }


def _seen(release: Release, column: str) -> tuple[IntArray, FloatArray]:
    """The published codes in the order of the rows, and the operator's matrix."""
    values = pa.chunked_array(
        [
            pq.read_table(path, columns=[column]).column(0).combine_chunks()
            for path in release.records
        ]
    )
    codes = pc.index_in(values, value_set=release.domain(column)).to_numpy()
    operator = release.operators[column]
    return np.asarray(codes, np.int64), operator.matrix()
