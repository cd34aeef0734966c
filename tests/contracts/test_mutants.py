"""Releases that were tampered with must not pass an audit, whatever their kind.

Every mutant is signed anew (hashes, sizes and row counts are right), so that only its content can
betray it. Audits of honest releases fail with a chance of about 1e-6 per fit; the table is large
enough that the mutants that only statistics can see are many standard errors away.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.audits import audit
from sfumato.audits.catalogue import every_check
from sfumato.engines.publishing import publish
from sfumato.errors import SfumatoError
from sfumato.table import read

ROWS = 3000
VALUES = np.array(["angina", "asthma", "cancer", "flu", "gout", "ulcer"])
SHARES = [0.22, 0.2, 0.18, 0.16, 0.14, 0.1]


def make_table() -> pa.Table:
    """Everybody can be singled out; the disease depends on the sex and the age a little."""
    rng = np.random.default_rng(12)
    sex = rng.integers(0, 2, ROWS)
    age = rng.integers(18, 90, ROWS)
    disease = rng.choice(6, ROWS, p=SHARES)
    moved = (sex == 1) & (disease == 0) & (rng.random(ROWS) < 0.3)
    disease[moved] = 1 + rng.integers(0, 5, int(moved.sum()))
    return pa.table(
        {
            "zip": pa.array(rng.permutation(ROWS) + 10_000),
            "age": pa.array(age),
            "sex": pa.array(np.array(["F", "M"])[sex]),
            "disease": pa.array(VALUES[disease]),
        }
    )


TABLE = make_table()
TRUTH = dict(zip(TABLE["zip"].to_pylist(), TABLE["disease"].to_pylist(), strict=True))

RELEASES = {
    "uniform": "rho-privacy(1/4, 1/2)",
    "fine-grain": "fine-rho-privacy(theta=2)",
    "general": "fine-rho-privacy(theta=2)",
    "partitioned": "rho-privacy(1/4, 1/2)",
    "splu": "small-sum(groups=3)",
    "anatomy": "l-diversity(3)",
    "two-size": "f-privacy(theta=2)",
    "multi-size": "f-privacy(theta=2)",
    "optimal": "beta-likeness(1)",
    "optimal(fakes=1)": "l-diversity(3)",
    "local(min=300, columns=age;sex)": "l-diversity(3)",
}
GENERALIZED = {
    "heterogeneous": "l-diversity(3)",
    "ring": "l-diversity(3)",
    "burel": "beta-likeness(1)",
}
PERTURBED = ("uniform", "fine-grain", "general", "partitioned", "splu")
LOCAL = "local(min=300, columns=age;sex)"
BUCKETED = ("anatomy", "two-size", "multi-size", "optimal", "optimal(fakes=1)", LOCAL)


@dataclass
class Copy:
    """A release to tamper with."""

    folder: Path

    def file(self, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
        path = self.folder / name
        table = change(pq.read_table(path))
        pq.write_table(table, path, store_schema=False)

        def sign(manifest: dict[str, Any]) -> None:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            manifest["files"][name] = {"sha256": digest, "bytes": len(content)}
            if name == "records/part-00000.parquet":
                manifest["rows"] = table.num_rows

        self.manifest(sign)

    def bytes(self, name: str, content: bytes) -> None:
        """A file, byte by byte."""
        (self.folder / name).write_bytes(content)
        entry = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        self.manifest(lambda manifest: manifest["files"].update({name: entry}))

    def records(self, change: Callable[[pa.Table], pa.Table]) -> None:
        self.file("records/part-00000.parquet", change)

    def column(self, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
        def put(table: pa.Table) -> pa.Table:
            place = table.schema.names.index(name)
            old = np.array(table.column(name).to_pylist(), object)
            array = pa.array(change(old).tolist(), table.schema.field(name).type)
            return table.set_column(place, name, array)

        self.records(put)

    def listing(self, change: Callable[[list[dict[str, Any]]], None]) -> None:
        def put(table: pa.Table) -> pa.Table:
            rows = table.to_pylist()
            change(rows)
            return pa.Table.from_pylist(rows, table.schema)

        self.file("sensitive.parquet", put)

    def manifest(self, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.folder / "manifest.json"
        described = json.loads(path.read_text("utf-8"))
        change(described)
        path.write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def promise(self, text: str) -> None:
        self.manifest(lambda manifest: manifest.update(guarantee=text))


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("releases")
    table = read(TABLE, quasi=["zip", "age", "sex"], sensitive="disease")
    made = {}
    for number, (mechanism, guarantee) in enumerate(RELEASES.items()):
        made[mechanism] = folder / str(number)
        publish(table, guarantee, to=made[mechanism], mechanism=mechanism)
    for mechanism, guarantee in GENERALIZED.items():
        made[mechanism] = folder / mechanism
        receipt = folder / f"{mechanism} receipt"
        publish(table, guarantee, to=made[mechanism], mechanism=mechanism, receipt=receipt)
    return made


# -- mutants: what a careless or dishonest publisher could do ------------------------------------


def drop_record(copy: Copy) -> None:
    copy.records(lambda table: table.slice(1))


def repeat_record(copy: Copy) -> None:
    copy.records(lambda table: pa.concat_tables([table.slice(1), table.slice(5, 1)]))


def invent_record(copy: Copy) -> None:
    copy.records(lambda table: pa.concat_tables([table, table.slice(0, 1)]))


def change_a_quasi_value(copy: Copy) -> None:
    def change(ages: np.ndarray) -> np.ndarray:
        ages[0] = 18 if ages[0] != 18 else 19
        return ages

    copy.column("age", change)


def swap_quasi_values(copy: Copy) -> None:
    def change(sexes: np.ndarray) -> np.ndarray:
        first, second = np.flatnonzero(sexes == "F")[0], np.flatnonzero(sexes == "M")[0]
        sexes[[first, second]] = sexes[[second, first]]
        return sexes

    copy.column("sex", change)


def deal(copy: Copy, by: np.ndarray) -> None:
    """The people of each value change buckets among themselves: by rank, along the buckets."""
    true = truths(copy).astype(str)
    old = pq.read_table(copy.folder / "records").column("bucket").to_numpy()
    new = old.copy()
    for value in VALUES:
        own = np.flatnonzero(true == value)
        new[own[np.argsort(by[own], kind="stable")]] = np.sort(old[own])
    copy.column("bucket", lambda buckets: new)


def deal_by_age(copy: Copy) -> None:
    ages = pq.read_table(copy.folder / "records").column("age").to_numpy()
    deal(copy, ages + np.random.default_rng(3).random(len(ages)))


def deal_by_place_in_the_table(copy: Copy) -> None:
    stood = {zip_code: place for place, zip_code in enumerate(TABLE["zip"].to_pylist())}
    zips = pq.read_table(copy.folder / "records").column("zip").to_pylist()
    deal(copy, np.array([stood[zip_code] for zip_code in zips]))


def deal_one_value_by_age(copy: Copy) -> None:
    """The others lie as they fell: only along the bucket numbers can it be seen."""
    table = pq.read_table(copy.folder / "records")
    ages, old = table.column("age").to_numpy(), table.column("bucket").to_numpy()
    own = np.flatnonzero(truths(copy) == "angina")
    new = old.copy()
    new[own[np.argsort(ages[own], kind="stable")]] = np.sort(old[own])
    copy.column("bucket", lambda buckets: new)


def deal_across_blocks(copy: Copy) -> None:
    """At random, but as if there were no blocks."""
    deal(copy, np.random.default_rng(4).random(ROWS))


def blocks_of(copy: Copy, buckets: np.ndarray) -> np.ndarray:
    told = json.loads((copy.folder / "manifest.json").read_text("utf-8"))["plan"]["blocks"]
    ends = np.cumsum([each["buckets"] for each in told if "buckets" in each])
    return np.searchsorted(ends, buckets, side="right")


def deal_inside_blocks(copy: Copy, column: str) -> None:
    """Blocks are kept; inside them the people of a value stand along the buckets by a column."""
    table = pq.read_table(copy.folder / "records")
    old, by = table.column("bucket").to_numpy(), np.array(table.column(column).to_pylist())
    block, true, new = blocks_of(copy, old), truths(copy), old.copy()
    for number in np.unique(block):
        for value in VALUES:
            own = np.flatnonzero((block == number) & (true == value))
            new[own[np.argsort(by[own], kind="stable")]] = np.sort(old[own])
    copy.column("bucket", lambda buckets: new)


def deal_by_age_inside_blocks(copy: Copy) -> None:
    deal_inside_blocks(copy, "age")


def deal_by_a_unique_column_inside_blocks(copy: Copy) -> None:
    """Everybody has a postcode of their own, so nobody shares one with the bucket."""
    deal_inside_blocks(copy, "zip")


def number_buckets_by_age_inside_blocks(copy: Copy) -> None:
    """Who is with whom is a coin; the numbers of a block's buckets follow their people's ages."""
    table = pq.read_table(copy.folder / "records")
    old, ages = table.column("bucket").to_numpy(), table.column("age").to_numpy()
    buckets = np.unique(old)
    mean = np.bincount(old, ages)[buckets] / np.bincount(old)[buckets]
    named = dict(zip(buckets[np.lexsort((mean, blocks_of(copy, buckets)))], buckets, strict=True))
    copy.column("bucket", lambda buckets: np.array([named[each] for each in buckets]))

    def renumber(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["bucket"] = int(named[row["bucket"]])
        rows.sort(key=lambda row: (row["bucket"], str(row["disease"])))

    copy.listing(renumber)


def admit_a_seed(copy: Copy) -> None:
    copy.manifest(lambda manifest: manifest.update(randomness="seeded"))


def write_a_note_into_a_file(copy: Copy) -> None:
    path = copy.folder / "records/part-00000.parquet"
    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"note": "10007 has the flu"})
    copy.bytes("records/part-00000.parquet", path.read_bytes())


def write_a_note_in_blanks(copy: Copy) -> None:
    """Where a blank ends a line of the manifest, somebody reads a 1."""
    path = copy.folder / "manifest.json"
    lines = path.read_text("utf-8").splitlines()
    ends = ("", " ", "", "", " ", " ", "", " ")
    path.write_text("\n".join(map(str.__add__, lines, (*ends, *[""] * len(lines)))), "utf-8")


def write_a_note_into_a_column(copy: Copy) -> None:
    """Metadata of a column chunk: field 8 of Parquet's ColumnMetaData, put in by hand."""
    path = copy.folder / "records/part-00000.parquet"
    chunk, data = pq.read_metadata(path).row_group(0).column(0), path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - length], data[-8 - length : -8]
    size, offset = zigzag(chunk.total_compressed_size), zigzag(chunk.data_page_offset)
    note = b"\x19\x1c\x18\x04note\x18\x05Anna!\x00"
    before, after = b"\x16" + size + b"\x26" + offset, b"\x16" + size + note + b"\x16" + offset
    assert footer.count(before) == 1
    footer = footer.replace(before, after)
    copy.bytes(
        "records/part-00000.parquet", body + footer + len(footer).to_bytes(4, "little") + data[-4:]
    )


def zigzag(number: int) -> bytes:
    """A whole number as Thrift's compact protocol writes it."""
    rest, found = 2 * number, b""
    while rest > 0x7F:
        found, rest = found + bytes([rest & 0x7F | 0x80]), rest >> 7
    return found + bytes([rest])


def write_a_note_between_the_pages(copy: Copy) -> None:
    path = copy.folder / "records/part-00000.parquet"
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    copy.bytes(
        "records/part-00000.parquet",
        data[: -8 - length] + b"10007 has the flu" + data[-8 - length :],
    )


def reword_the_statement(copy: Copy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["statement"][0] += " Nobody can learn anything."

    copy.manifest(change)


def hide_what_it_does_not_protect(copy: Copy) -> None:
    copy.manifest(lambda manifest: manifest["does_not_protect"].pop())


SAID_BESIDES = [
    write_a_note_in_blanks,
    write_a_note_into_a_file,
    write_a_note_into_a_column,
    write_a_note_between_the_pages,
    reword_the_statement,
    hide_what_it_does_not_protect,
]
EVERY = [
    drop_record,
    repeat_record,
    invent_record,
    change_a_quasi_value,
    swap_quasi_values,
    admit_a_seed,
]


def truths(copy: Copy) -> np.ndarray:
    zips = pq.read_table(copy.folder / "records").column("zip").to_pylist()
    return np.array([TRUTH[z] for z in zips], object)


def publish_the_truth(copy: Copy) -> None:
    true = truths(copy)
    copy.column("disease", lambda shown: true)


def publish_the_truth_for_some(copy: Copy) -> None:
    true = truths(copy)
    some = np.arange(len(true)) % 5 < 3

    copy.column("disease", lambda shown: np.where(some, true, shown))


def pour_one_value_into_another(copy: Copy) -> None:
    copy.column("disease", lambda shown: np.where(shown == "gout", "flu", shown))


def show_one_value_only(copy: Copy) -> None:
    copy.column("disease", lambda shown: np.full(len(shown), "flu", object))


VALUES_CHANGED = [
    publish_the_truth,
    publish_the_truth_for_some,
    pour_one_value_into_another,
    show_one_value_only,
]


def operator_of(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["plan"]["operators"]["disease"]
    return found


def first_retention(operator: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Where the retentions of a uniform operator stand, in a part where there are parts."""
    inside = operator["parts"][0]["operator"] if "parts" in operator else operator
    key = next(key for key in inside if key not in ("form", "values"))
    return inside, key


def raise_an_operator_entry(copy: Copy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        inside, key = first_retention(operator_of(manifest))
        inside[key] = _changed(inside[key], up=True)

    copy.manifest(change)


def lower_an_operator_entry(copy: Copy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        inside, key = first_retention(operator_of(manifest))
        inside[key] = _changed(inside[key], up=False)

    copy.manifest(change)


def _changed(entry: Any, up: bool) -> Any:
    """The first number of an operator's description, doubled or set to a tenth."""
    if isinstance(entry, list):
        return [_changed(entry[0], up), *entry[1:]]
    if isinstance(entry, str):
        from fractions import Fraction

        number = Fraction(entry)
        return str(min(number * 2, Fraction(9, 10)) if up else number / 10)
    return int(entry * 2) if up else int(entry // 10)


def forget_the_operator(copy: Copy) -> None:
    """Claim records that went through groups of decoys, which they did not."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["plan"]["operators"]["disease"] = {"form": "decoy", "values": 6, "groups": 3}

    copy.manifest(change)


def promise_more(text: str) -> Callable[[Copy], None]:
    def mutate(copy: Copy) -> None:
        copy.promise(text)

    mutate.__name__ = f"promise {text}"
    return mutate


def swap_buckets(copy: Copy) -> None:
    def change(buckets: np.ndarray) -> np.ndarray:
        true = truths(copy)
        other = next(
            k
            for k in range(1, len(buckets))
            if buckets[k] != buckets[0] and true[k] != true[0] and _swap_shows(copy, buckets, k)
        )
        buckets[[0, other]] = buckets[[other, 0]]
        return buckets

    copy.column("bucket", change)


def _listed(copy: Copy, bucket: int) -> dict[str, int]:
    rows = pq.read_table(copy.folder / "sensitive.parquet").to_pylist()
    return {row["disease"]: row["count"] for row in rows if row["bucket"] == bucket}


def _swap_shows(copy: Copy, buckets: np.ndarray, other: int) -> bool:
    """Whether the other bucket does not list the first record's value at all."""
    return truths(copy)[0] not in _listed(copy, buckets[other])


def move_a_record(copy: Copy) -> None:
    def change(buckets: np.ndarray) -> np.ndarray:
        buckets[0] = next(b for b in buckets if b != buckets[0])
        return buckets

    copy.column("bucket", change)


def swap_a_value_into_a_bucket(copy: Copy) -> None:
    """Some member's value gives way to one that the bucket did not list."""
    records = pq.read_table(copy.folder / "records")
    member = dict(zip(records.column("bucket").to_pylist(), truths(copy).tolist(), strict=True))

    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            held = {other["disease"] for other in rows if other["bucket"] == row["bucket"]}
            if row["disease"] == member[row["bucket"]] and len(held) < len(VALUES):
                row["disease"] = next(value for value in VALUES.tolist() if value not in held)
                return

    copy.listing(change)


def exchange_listed_values(copy: Copy) -> None:
    """The histogram stays; two buckets list each other's value, which a member of each has.

    Two exchanged fakes would break no promise, and nobody could tell.
    """
    records = pq.read_table(copy.folder / "records")
    real = set(zip(records.column("bucket").to_pylist(), truths(copy).tolist(), strict=True))

    def change(rows: list[dict[str, Any]]) -> None:
        held: dict[int, set[str]] = {}
        for row in rows:
            held.setdefault(row["bucket"], set()).add(row["disease"])
        singles = [
            row for row in rows if row["count"] == 1 and (row["bucket"], row["disease"]) in real
        ]
        for first in singles:
            for second in singles:
                if (
                    first["bucket"] != second["bucket"]
                    and first["disease"] != second["disease"]
                    and first["disease"] not in held[second["bucket"]]
                    and second["disease"] not in held[first["bucket"]]
                ):
                    first["disease"], second["disease"] = second["disease"], first["disease"]
                    return
        pytest.skip("every bucket lists every value")

    copy.listing(change)


def list_one_value_for_all(copy: Copy) -> None:
    """One value stands for every other in its bucket: above any ceiling below 1."""

    def change(rows: list[dict[str, Any]]) -> None:
        kept, *others = [row for row in rows if row["bucket"] == rows[0]["bucket"]]
        kept["count"] += sum(other["count"] for other in others)
        for other in others:
            rows.remove(other)

    copy.listing(change)


def list_one_more(copy: Copy) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[0]["count"] += 1

    copy.listing(change)


def forget_a_bucket(copy: Copy) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        gone = rows[0]["bucket"]
        rows[:] = [row for row in rows if row["bucket"] != gone]

    copy.listing(change)


def claim_another_fake(copy: Copy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        plan = manifest["plan"]
        plan["fakes"] = plan.get("fakes", 0) + 1

    copy.manifest(change)


def claim_fewer_buckets(copy: Copy) -> None:
    copy.manifest(lambda manifest: manifest["plan"].update(buckets=1))


def claim_a_smaller_error(copy: Copy) -> None:
    copy.manifest(lambda manifest: manifest["plan"].update(mean_squared_error=0.0))


def put_one_value_together(copy: Copy) -> None:
    """Honest lists of dishonest buckets: nothing but one value in one bucket."""
    true = truths(copy)
    old = pq.read_table(copy.folder / "records").column("bucket").to_numpy()
    chosen = np.flatnonzero(true == "flu")
    taken = np.flatnonzero(old == old[chosen[0]])
    new = old.copy()
    strangers = [k for k in taken if true[k] != "flu"]
    others = [k for k in chosen if old[k] != old[chosen[0]]][: len(strangers)]
    for stranger, other in zip(strangers, others, strict=False):
        new[[stranger, other]] = new[[other, stranger]]
    copy.column("bucket", lambda buckets: new)

    def change(table: pa.Table) -> pa.Table:
        joined = pa.table({"bucket": pa.array(new), "disease": pa.array(true.tolist())})
        counted = joined.group_by(["bucket", "disease"]).aggregate([("disease", "count")])
        counted = counted.rename_columns(["bucket", "disease", "count"])
        return counted.select(table.schema.names).cast(table.schema)

    copy.file("sensitive.parquet", change)


LISTS_CHANGED = [
    swap_buckets,
    move_a_record,
    swap_a_value_into_a_bucket,
    exchange_listed_values,
    list_one_value_for_all,
    list_one_more,
    forget_a_bucket,
    claim_another_fake,
    claim_fewer_buckets,
    claim_a_smaller_error,
    put_one_value_together,
    deal_by_age,
    deal_by_place_in_the_table,
    deal_one_value_by_age,
]


def narrow_a_range(copy: Copy) -> None:
    """One row no longer covers somebody whom it stands for."""
    records = pq.read_table(copy.folder / "records").to_pylist()
    row = next(k for k, r in enumerate(records) if r["zip_low"] < r["zip_high"])

    def change(lows: np.ndarray) -> np.ndarray:
        lows[row] = records[row]["zip_high"]
        return lows

    copy.column("zip_low", change)


def take_a_value_from_a_set(copy: Copy) -> None:
    def change(sets: np.ndarray) -> np.ndarray:
        row = next((k for k, held in enumerate(sets) if len(held) > 1), None)
        if row is None:
            pytest.skip("no set has two values")
        sets[row] = sets[row][:1]
        return sets

    def put(table: pa.Table) -> pa.Table:
        place = table.schema.names.index("sex")
        sets = np.empty(table.num_rows, object)
        sets[:] = table.column("sex").to_pylist()
        array = pa.array(change(sets).tolist(), table.schema.field("sex").type)
        return table.set_column(place, "sex", array)

    copy.records(put)


def exchange_values(copy: Copy) -> None:
    """The histogram stays; two rows show each other's value."""

    def change(shown: np.ndarray) -> np.ndarray:
        other = next(k for k in range(1, len(shown)) if shown[k] != shown[0])
        shown[[0, other]] = shown[[other, 0]]
        return shown

    copy.column("disease", change)


def sort_values(copy: Copy) -> None:
    copy.column("disease", lambda shown: np.array(sorted(shown), object))


RANGES_CHANGED = [
    drop_record,
    repeat_record,
    invent_record,
    admit_a_seed,
    pour_one_value_into_another,
    show_one_value_only,
    narrow_a_range,
    take_a_value_from_a_set,
    exchange_values,
    sort_values,
    promise_more("l-diversity(6)"),
    promise_more("rho-privacy(1/4, 1/2)"),
]

PROMISED_MORE = [
    ("uniform", promise_more("rho-privacy(1/4, 3/10)")),
    ("uniform", promise_more("small-sum(groups=3)")),
    ("uniform", promise_more("l-diversity(3)")),
    ("fine-grain", promise_more("fine-rho-privacy(theta=1.2)")),
    ("general", promise_more("fine-rho-privacy(theta=1.2)")),
    ("partitioned", promise_more("rho-privacy(1/4, 3/10)")),
    ("partitioned", promise_more("small-sum(groups=3)")),
    ("splu", promise_more("small-sum(groups=4)")),
    ("splu", promise_more("rho-privacy(1/4, 1/2)")),
    ("anatomy", promise_more("l-diversity(4)")),
    ("anatomy", promise_more("small-sum(groups=3)")),
    ("anatomy", promise_more("rho-privacy(1/4, 1/2)")),
    ("two-size", promise_more("f-privacy(theta=1.1)")),
    ("multi-size", promise_more("f-privacy(theta=1.1)")),
    ("optimal", promise_more("beta-likeness(1/10)")),
    ("optimal(fakes=1)", promise_more("l-diversity(6)")),
    (LOCAL, promise_more("l-diversity(4)")),
]

DEALT_LOCALLY = (
    deal_across_blocks,
    deal_by_age_inside_blocks,
    deal_by_a_unique_column_inside_blocks,
    number_buckets_by_age_inside_blocks,
)
MUTANTS: list[tuple[str, Callable[[Copy], None]]] = [
    *((mechanism, mutant) for mechanism in RELEASES for mutant in EVERY),
    *((mechanism, mutant) for mechanism in PERTURBED for mutant in VALUES_CHANGED),
    *((mechanism, mutant) for mechanism in BUCKETED for mutant in LISTS_CHANGED),
    *(
        (mechanism, mutant)
        for mechanism in ("uniform", "fine-grain", "general", "partitioned")
        for mutant in (raise_an_operator_entry, lower_an_operator_entry, forget_the_operator)
    ),
    *((mechanism, mutant) for mechanism in GENERALIZED for mutant in RANGES_CHANGED),
    *((LOCAL, mutant) for mutant in DEALT_LOCALLY),
    *(
        (mechanism, mutant)
        for mechanism in ("uniform", "optimal", "heterogeneous")
        for mutant in SAID_BESIDES
    ),
    *PROMISED_MORE,
]


# The check that catches each mutant: one of these fails, whatever the mechanism. `opening` means
# that the release does not even open.
CAUGHT_BY: dict[str, tuple[str, ...]] = {
    "drop_record": ("rows", "opening"),
    "repeat_record": ("quasi-columns", "sources"),
    "invent_record": ("rows", "opening"),
    "change_a_quasi_value": ("quasi-columns", "opening"),
    "swap_quasi_values": ("quasi-columns", "opening"),
    "admit_a_seed": ("randomness",),
    "deal_by_age": ("dealing", "opening"),
    "deal_by_place_in_the_table": ("dealing", "opening"),
    "deal_one_value_by_age": ("dealing", "opening"),
    "deal_across_blocks": ("opening",),
    "deal_by_age_inside_blocks": ("dealing",),
    "deal_by_a_unique_column_inside_blocks": ("dealing",),
    "number_buckets_by_age_inside_blocks": ("dealing",),
    "publish_the_truth": ("agreement",),
    "publish_the_truth_for_some": ("agreement",),
    "pour_one_value_into_another": (
        "subgroups", "value-counts", "fit", "agreement", "decoy-counts",
    ),
    "show_one_value_only": ("subgroups", "value-counts"),
    "swap_buckets": ("members", "opening"),
    "move_a_record": ("bucket-sizes", "opening"),
    "swap_a_value_into_a_bucket": ("members",),
    "exchange_listed_values": ("members",),
    "list_one_value_for_all": ("ceilings",),
    "list_one_more": ("bucket-sizes",),
    "forget_a_bucket": ("opening",),
    "claim_another_fake": ("bucket-sizes", "opening"),
    "claim_fewer_buckets": ("words", "opening"),
    "claim_a_smaller_error": ("words",),
    "put_one_value_together": ("ceilings", "opening"),
    "raise_an_operator_entry": ("amplification", "sub-tables", "opening"),
    "lower_an_operator_entry": ("agreement", "sub-tables", "opening"),
    "forget_the_operator": ("words",),
    "narrow_a_range": ("coverage", "outside-group", "inexact"),
    "take_a_value_from_a_set": ("impossible", "inexact", "outside-group"),
    "exchange_values": ("sources",),
    "sort_values": ("sources",),
    "write_a_note_in_blanks": ("hidden-texts",),
    "write_a_note_into_a_file": ("hidden-texts",),
    "write_a_note_into_a_column": ("hidden-texts",),
    "write_a_note_between_the_pages": ("hidden-texts",),
    "reword_the_statement": ("words",),
    "hide_what_it_does_not_protect": ("words",),
    "promise_more": (
        "mechanism", "amplification", "sub-tables", "group-size", "ceilings", "match-share",
        "group-share",
    ),
}  # fmt: skip
# mutants that need tables or runs of their own, with the tests that catch them
ELSEWHERE = {
    "mark people by minus zero": ("odd-numbers", "test_hidden.py::test_marked_numbers_are_noticed"),
    "show sixty people as they are": (
        "subgroups", "test_agreement.py::test_sixty_people_left_unprotected_are_noticed",
    ),
    "draw two columns with one coin": (
        "coin", "test_agreement.py::test_one_coin_for_two_columns_is_noticed",
    ),
    "change one record, and audit with the receipt": (
        "replay", "test_replay.py::test_every_kind_is_made_again",
    ),
    "use a key of zeros, or one that others can read": (
        "publish", "test_hidden.py::test_keys_that_are_no_secret_are_refused",
    ),
}  # fmt: skip


def receipt_of(releases: dict[str, Path], mechanism: str) -> Path | None:
    """Matches and groups of generalized releases can be seen with the receipt alone."""
    if mechanism not in GENERALIZED:
        return None
    return releases[mechanism].parent / f"{mechanism} receipt"


@pytest.mark.parametrize("mechanism", [*RELEASES, *GENERALIZED])
def test_honest_releases_pass(releases: dict[str, Path], mechanism: str) -> None:
    verdict = audit(TABLE, releases[mechanism], receipt=receipt_of(releases, mechanism))
    assert verdict.holds, str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "mutant"), MUTANTS, ids=[f"{way}-{m.__name__}" for way, m in MUTANTS]
)
def test_mutants_are_caught(
    releases: dict[str, Path], mechanism: str, mutant: Callable[[Copy], None], tmp_path: Path
) -> None:
    shutil.copytree(releases[mechanism], tmp_path / "copy")
    mutant(Copy(tmp_path / "copy"))
    try:
        verdict = audit(TABLE, tmp_path / "copy", receipt=receipt_of(releases, mechanism))
        failed = {f.check.name for f in verdict.findings if f.holds is False}
    except SfumatoError:
        failed = {"opening"}
    assert failed & set(CAUGHT_BY[named(mutant)]), failed


def named(mutant: Callable[[Copy], None]) -> str:
    return "promise_more" if mutant.__name__.startswith("promise ") else mutant.__name__


def test_every_mutant_names_the_checks_that_catch_it() -> None:
    root = Path(__file__).parents[2]
    assert {named(mutant) for _, mutant in MUTANTS} == set(CAUGHT_BY)
    known = {*every_check(), "opening", "publish"}
    assert {check for checks in CAUGHT_BY.values() for check in checks} <= known
    for check, place in ELSEWHERE.values():
        file, test = place.split("::")
        assert check in known
        assert f"def {test}(" in (root / "tests" / "audits" / file).read_text("utf-8"), place
