"""Releases that were tampered with must not pass an audit, whatever their kind.

Every mutant is signed anew: hashes, sizes and row counts are right. A mutant of the *content* is
written again as publishing would write it, so that only the promise or the draws can betray it; a
mutant of the *spelling* keeps the content. The audits know the table, and the receipt where it says
so; the only mutants that pass are choices by a secret rule, and the verdict says so.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audits import Verdict
from sfumato.audits.spelling import rewrite
from sfumato.errors import SfumatoError
from sfumato.release import Release

ROWS = 2000
VALUES = np.array(["angina", "asthma", "cancer", "flu", "gout", "ulcer"])
RECORDS, LISTS = "records/part-00000.parquet", "sensitive.parquet"


def make_table() -> pa.Table:
    """Everybody can be singled out; the disease depends on sex and age a little."""
    rng = np.random.default_rng(12)
    sex, age = rng.integers(0, 2, ROWS), rng.integers(18, 90, ROWS)
    disease = (rng.choice(6, ROWS, p=[0.22, 0.2, 0.18, 0.16, 0.14, 0.1]) + (age > 60)) % 6
    return pa.table(
        {
            "zip": rng.permutation(ROWS) + 10_000,
            "age": age,
            "sex": np.array(["F", "M"])[sex],
            "height": rng.choice([1.5, 0.0, 1.75], ROWS),
            "disease": VALUES[disease],
            "work": np.array(list("abcde"))[(rng.integers(0, 5, ROWS) + sex) % 5],
            "patient": np.arange(ROWS) // 2,
        }
    )


TABLE = make_table()
TRUTH = dict(zip(TABLE["zip"].to_pylist(), TABLE["disease"].to_pylist(), strict=True))
ROLES = {"quasi": ["zip", "age", "sex", "height"], "sensitive": "disease"}
BOTH = {**ROLES, "sensitive": ["disease", "work"]}
GROUPED = {"quasi": ["sex", "height"], "sensitive": "disease"}
RELEASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "uniform": ("rho-privacy(1/4, 1/2)", "uniform", ROLES),
    "fine": ("fine-rho-privacy(2)", "fine-grain", ROLES),
    "parts": ("rho-privacy(1/4, 1/2)", "partitioned", ROLES),
    "decoys": ("small-sum(groups=3)", "splu", ROLES),
    "sampled": ("reconstruction-privacy(0.3, 0.3)", "sps(merge=none)", GROUPED),
    "buckets": ("l-diversity(3)", "optimal", ROLES),
    "fakes": ("l-diversity(3)", "optimal(fakes=1)", ROLES),
    "blocks": ("l-diversity(3)", "local(min=300, columns=age;sex)", ROLES),
    "ranges": ("l-diversity(3)", "heterogeneous", ROLES),
    "ring": ("l-diversity(3)", "ring", ROLES),
    "groups": ("beta-likeness(1)", "burel", ROLES),
    "columns": ("rho-privacy(1/4, 1/2)", "uniform", BOTH),
    "both": ("l-diversity(2)", "optimal", BOTH),
    "people": ("rho-privacy(1/4, 1/2)", "uniform", {**ROLES, "person": "patient"}),
    "people in buckets": ("l-diversity(2)", "optimal", {**ROLES, "person": "patient"}),
    "by column": ("disease: l-diversity(2) and work: l-diversity(3)", "optimal", BOTH),
}


@dataclass
class Copy:
    """A release to tamper with."""

    folder: Path

    def manifest(self, change: Callable[[dict[str, Any]], object]) -> None:
        path = self.folder / "manifest.json"
        described = json.loads(path.read_text("utf-8"))
        change(described)
        path.write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def sign(self, name: str) -> None:
        content = (self.folder / name).read_bytes()
        entry = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        self.manifest(lambda manifest: manifest["files"].update({name: entry}))

    def written(self, name: str, table: pa.Table, **options: Any) -> None:
        """A file written anew, in whatever way."""
        pq.write_table(table, self.folder / name, **{"store_schema": False, **options})
        self.sign(name)
        if name == RECORDS:
            self.manifest(lambda manifest: manifest.update(rows=table.num_rows))

    def table(self, name: str = RECORDS) -> pa.Table:
        return pq.read_table(self.folder / name)

    def content(self, change: Callable[[list[dict[str, Any]]], Any], name: str = RECORDS) -> None:
        """Other rows, written as publishing would write them."""
        table = self.table(name)
        rows = table.to_pylist()
        changed = change(rows)
        rows = rows if changed is None else changed
        self.written(name, pa.Table.from_pylist(rows, table.schema))
        self.respelled()

    def claim(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Another manifest, its sentences and its text as publishing would make them."""
        self.manifest(change)
        self.respelled()

    def respelled(self) -> None:
        other = self.folder.with_name("again")
        rewrite(Release(self.folder, verify=False), other)
        shutil.rmtree(self.folder)
        other.rename(self.folder)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    for name, (guarantee, mechanism, roles) in RELEASES.items():
        sf.publish(TABLE, guarantee, mechanism=mechanism, to=folder / name, left_out=1,
                   receipt=folder / f"{name}.receipt", drop_rest=True, **roles)  # fmt: skip
    return folder


def audited(folder: Path, receipt: Path | None = None) -> Verdict | None:
    """None where it cannot even be opened."""
    try:
        return sf.audit(TABLE, folder, receipt=receipt)
    except SfumatoError:
        return None


# -- spelling: the content is what it was ----------------------------------------------------------


def respell(**options: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.written(RECORDS, copy.table(), **options)


def shuffled(name: str, by: str | None = None) -> Callable[[Copy], None]:
    def change(copy: Copy) -> None:
        table = copy.table(name)
        order = np.random.default_rng(3).permutation(table.num_rows)
        if by is not None:  # by what the rows' people really have
            keys = [TRUTH[z] for z in table["zip"].to_pylist()]
            order = np.array(sorted(range(table.num_rows), key=lambda row: keys[row]))
        copy.written(name, table.take(pa.array(order)))

    return change


def lists_in_the_order_of_records(copy: Copy) -> None:
    """The i-th value of a bucket is the i-th record's."""
    records, lists = copy.table(), copy.table(LISTS)
    rank = {(row["bucket"], TRUTH[row["zip"]]): index for index, row in
            enumerate(records.to_pylist())}  # fmt: skip
    rows = sorted(lists.to_pylist(), key=lambda row: (row["bucket"],
                  rank.get((row["bucket"], row["disease"]), -1)))  # fmt: skip
    copy.written(LISTS, pa.Table.from_pylist(rows, lists.schema))


def buckets_numbered_by_secret(copy: Copy) -> None:
    """Whoever has angina lies in buckets with small numbers."""
    records, lists = copy.table(), copy.table(LISTS)
    many = 1 + max(lists["bucket"].to_pylist())
    ill = np.zeros(many)
    for row in records.to_pylist():
        ill[row["bucket"]] += TRUTH[row["zip"]] == "angina"
    number = np.empty(many, np.int64)
    number[np.argsort(-ill, kind="stable")] = np.arange(many)
    for name, table in ((RECORDS, records), (LISTS, lists)):
        index = table.schema.names.index("bucket")
        bucket = pa.array(number[table["bucket"].to_numpy()].astype(np.int32))
        copy.written(name, table.set_column(index, "bucket", bucket).sort_by("bucket"))


def stray_bytes(copy: Copy) -> None:
    path = copy.folder / RECORDS
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"row 17: judge" * 130 + content[4:])
    copy.sign(RECORDS)


def patched(old: bytes, new: bytes) -> Callable[[Copy], None]:
    def change(copy: Copy) -> None:
        path = copy.folder / RECORDS
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new))
        copy.sign(RECORDS)

    return change


def unused_dictionary_entry(copy: Copy) -> None:
    table = copy.table()
    sex = table["sex"].combine_chunks().dictionary_encode()
    known = pa.concat_arrays([sex.dictionary, pa.array(["row 17: judge"])])
    wide = pa.DictionaryArray.from_arrays(sex.indices, known)
    copy.written(RECORDS, table.set_column(table.schema.names.index("sex"), "sex", wide))


def odd_zero(copy: Copy) -> None:
    table = copy.table()
    height = table["height"].to_numpy().copy()
    height[17] = -0.0
    copy.written(RECORDS, table.set_column(table.schema.names.index("height"), "height",
                                           pa.array(height)))  # fmt: skip


def columns_in_another_order(copy: Copy) -> None:
    table = copy.table()
    copy.written(RECORDS, table.select(table.schema.names[::-1]))


def in_two_files(copy: Copy) -> None:
    table = copy.table()
    copy.written("records/part-00001.parquet", table.slice(ROWS // 2))
    copy.written(RECORDS, table.slice(0, ROWS // 2))
    copy.manifest(lambda manifest: manifest.update(rows=table.num_rows))


def text(change: Callable[[str], str]) -> Callable[[Copy], None]:
    def put(copy: Copy) -> None:
        path = copy.folder / "manifest.json"
        path.write_text(change(path.read_text("utf-8")), "utf-8")

    return put


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Copy], None]:
    return lambda copy: copy.manifest(change)


JUDGE = "Mr Smith, 47, of Ward 3 is a judge."
META = {b"note": b"row 17: judge"}

SPELLING: dict[str, tuple[str, Callable[[Copy], None]]] = {
    "rows in another order": ("uniform", shuffled(RECORDS)),
    "rows by the true values": ("uniform", shuffled(RECORDS, "disease")),
    "rows of buckets by the true values": ("buckets", shuffled(RECORDS, "disease")),
    "lists in another order": ("buckets", shuffled(LISTS)),
    "lists in the order of records": ("buckets", lists_in_the_order_of_records),
    "bucket numbers by the true values": ("buckets", buckets_numbered_by_secret),
    "ranges in another order": ("ranges", shuffled(RECORDS)),
    "metadata of the file": (
        "uniform", lambda c: c.written(RECORDS, c.table().replace_schema_metadata(META),
                                       store_schema=True)),
    "stray bytes": ("uniform", stray_bytes),
    "digits in created_by": ("uniform", patched(b"version ", b"versioN ")),
    "unused dictionary entry": ("uniform", unused_dictionary_entry),
    "row groups": ("uniform", respell(row_group_size=100)),
    "pages": ("uniform", respell(data_page_size=100, write_batch_size=10)),
    "codec": ("uniform", respell(compression="gzip")),
    "checksums": ("uniform", respell(write_page_checksum=True)),
    "sorting columns": (
        "uniform", respell(sorting_columns=[pq.SortingColumn(0)])),
    "no dictionaries": ("uniform", respell(use_dictionary=False)),
    "minus zero": ("uniform", odd_zero),
    "columns in another order": ("uniform", columns_in_another_order),
    "cut into two files": ("uniform", in_two_files),
    "blanks in the manifest": ("uniform", text(lambda said: said + "\n \n")),
    "escapes in the manifest": ("uniform", text(lambda said: said.replace("disease",
                                                                          "dise\\u0061se", 1))),
    "a caveat": ("uniform", edit(lambda m: m["caveats"].append(JUDGE))),
    "a caveat of buckets": ("buckets", edit(lambda m: m["caveats"].append(JUDGE))),
    "a caveat of ranges": ("ranges", edit(lambda m: m["caveats"].append(JUDGE))),
    "a caveat of samples": ("sampled", edit(lambda m: m["caveats"].append(JUDGE))),
    "a statement of people": ("people", edit(lambda m: m["statement"].append(JUDGE))),
    "a statement of two columns": ("both", edit(lambda m: m["statement"].append(JUDGE))),
    "a statement left out": ("blocks", edit(lambda m: m["statement"].pop())),
    "what it does not protect against": (
        "uniform", edit(lambda m: m["does_not_protect"].pop())),
    "a mechanism spelt otherwise": ("uniform", edit(lambda m: m.update(mechanism="uniform()"))),
    "unknown keys in plan": ("uniform", edit(lambda m: m["plan"].update(note=JUDGE))),
    "condition": ("buckets", edit(lambda m: m["plan"].update(condition=47.3))),
    "gap": ("buckets", edit(lambda m: m["plan"].update(gap=0.47))),
    "the error of buckets": ("buckets", edit(lambda m: m["plan"].update(
        mean_squared_error=0.4711))),
    "the number of buckets": ("buckets", edit(lambda m: m["plan"].update(
        buckets=m["plan"]["buckets"] + 1))),
}  # fmt: skip

# -- content: written as publishing would write it -------------------------------------------------


def each(change: Callable[[int, dict[str, Any]], None]) -> Callable[[Copy], None]:
    def put(rows: list[dict[str, Any]]) -> None:
        for index, row in enumerate(rows):
            change(index, row)

    return lambda copy: copy.content(put)


def shown_truly(chosen: Callable[[dict[str, Any]], bool]) -> Callable[[Copy], None]:
    def put(_: int, row: dict[str, Any]) -> None:
        if chosen(row):
            row["disease"] = TRUTH[row["zip"]]

    return each(put)


def hashed(row: dict[str, Any]) -> int:
    return int.from_bytes(hashlib.sha256(f"secret {row['zip']}".encode()).digest()[:4], "big")


def values_of_other_rows(rows: list[dict[str, Any]]) -> None:
    shown = [row["disease"] for row in rows]
    for row, value in zip(rows, shown[1:] + shown[:1], strict=True):
        row["disease"] = value


def member_moved(rows: list[dict[str, Any]]) -> None:
    """Two records change their buckets: sizes stay, contents do not."""
    one = rows[0]
    other = next(r for r in rows if r["bucket"] != one["bucket"]
                 and TRUTH[r["zip"]] != TRUTH[one["zip"]])  # fmt: skip
    one["bucket"], other["bucket"] = other["bucket"], one["bucket"]


def bucket_above_its_ceiling(copy: Copy) -> None:
    """Two values change places between lists, and their people with them: one repeats now."""
    records, lists = copy.table().to_pylist(), copy.table(LISTS).to_pylist()
    held: dict[int, dict[str, int]] = {}
    for row in lists:
        held.setdefault(row["bucket"], {})[row["disease"]] = row["count"]
    one, two = next((a, b) for a in held for b in held if a != b
                    and set(held[a]) - set(held[b]) and set(held[a]) & set(held[b]))  # fmt: skip
    gone, twice = min(set(held[one]) - set(held[two])), min(set(held[one]) & set(held[two]))
    moved = {(one, gone): two, (two, twice): one}
    for (bucket, value), to in moved.items():
        held[bucket][value] -= 1
        held[to][value] = held[to].get(value, 0) + 1
        person = next(r for r in records if r["bucket"] == bucket and TRUTH[r["zip"]] == value)
        person["bucket"] = to
    written = [{"bucket": b, "disease": v, "count": n} for b, each in held.items()
               for v, n in each.items() if n]  # fmt: skip
    schema = copy.table(LISTS).schema
    copy.written(RECORDS, pa.Table.from_pylist(records, copy.table().schema))
    copy.written(LISTS, pa.Table.from_pylist(written, schema))
    copy.respelled()


def dealt_by(column: str) -> Callable[[Copy], None]:
    """The people of a value stand in its buckets by this column, or by their place in the table."""
    places = {zip_code: place for place, zip_code in enumerate(TABLE["zip"].to_pylist())}

    def put(rows: list[dict[str, Any]]) -> None:
        for value in VALUES:
            own = [row for row in rows if TRUTH[row["zip"]] == value]
            own.sort(key=lambda row: row[column] if column in row else places[row["zip"]])
            slots = sorted(row["bucket"] for row in own)
            for row, bucket in zip(own, slots, strict=True):
                row["bucket"] = bucket

    return lambda copy: copy.content(put)


def raw_group(copy: Copy) -> None:
    """A group of an sps release with the values that it has."""

    def put(rows: list[dict[str, Any]]) -> None:
        own = [row for row in rows if row["sex"] == "F" and row["height"] == 1.5]
        frame = TABLE.to_pandas()
        true = frame[(frame.sex == "F") & (frame.height == 1.5)]["disease"].tolist()
        for row, value in zip(own, true, strict=True):
            row["disease"] = value

    copy.content(put)


def left_out(chosen: Callable[[dict[str, Any]], bool]) -> Callable[[Copy], None]:
    """These rows are missing, and the manifest says that so many are."""

    def put(copy: Copy) -> None:
        table = copy.table()
        rows = [row for row in table.to_pylist() if not chosen(row)]
        copy.manifest(lambda m: m.update(suppressed=table.num_rows - len(rows)))
        copy.written(RECORDS, pa.Table.from_pylist(rows, table.schema))
        copy.respelled()

    return put


def other_rows_of_people(better: Callable[[dict[str, Any]], bool]) -> Callable[[Copy], None]:
    """Of a person's two rows the better one is published, in the bucket of the other."""

    def put(rows: list[dict[str, Any]]) -> None:
        raw = TABLE.to_pylist()
        of = {row["zip"]: place for place, row in enumerate(raw)}
        low, high = (end(row["zip"] for row in rows) for end in (min, max))  # stay in the domain
        for row in rows:
            other = raw[of[row["zip"]] ^ 1]  # of the same patient
            if low < row["zip"] < high and low < other["zip"] < high and better(other):
                row.update({name: other[name] for name in ROLES["quasi"]})

    return lambda copy: copy.content(put)


def more_kept(operator: dict[str, Any]) -> None:
    most = operator["denominator"]
    operator["retentions"] = [min(2 * kept, most) for kept in operator["retentions"]]


def low_digits(operator: dict[str, Any], *_: Any) -> None:
    """24 bits of a message, below what any answer or promise sees."""
    if "retentions" in operator:
        kept = operator["retentions"]
        kept[-1] -= kept[-1] & 0xFFFFFF ^ 0x4A7D3E
    else:
        kept, whole = map(int, operator["retention"].split("/"))
        scale = (1 << 32) // whole
        kept = (kept * scale >> 24 << 24) - 0x4A7D3E
        operator["retention"] = str(Fraction(kept, 1 << 32))


def of_operator(change: Callable[[dict[str, Any]], object]) -> Callable[[Copy], None]:
    return lambda copy: copy.claim(lambda m: change(*m["plan"]["operators"].values()))


def second_row(rows: list[dict[str, Any]]) -> None:
    """A person's other row stands in another person's place: the number of rows is right."""
    other = TABLE.to_pylist()[TABLE["zip"].to_pylist().index(rows[6]["zip"]) ^ 1]
    rows[5].update({name: other[name] for name in ROLES["quasi"]})


def fakes_all_alike(copy: Copy) -> None:
    """The fake of every bucket is the first value that nobody in it has."""
    held: dict[int, list[str]] = {}
    for row in copy.table().to_pylist():
        held.setdefault(row["bucket"], []).append(TRUTH[row["zip"]])
    rows = [
        {"bucket": bucket, "disease": value, "count": 1}
        for bucket, own in held.items()
        for value in [*own, next(v for v in VALUES if v not in own)]
    ]
    copy.written(LISTS, pa.Table.from_pylist(rows, copy.table(LISTS).schema))
    copy.respelled()


def digits_of_an_edge(manifest: dict[str, Any]) -> None:
    node = next(node for node in manifest["plan"]["blocks"] if node.get("below") is not None)
    node["below"] -= 0.471


def another_part(copy: Copy) -> None:
    """Some groups of samples stand in the part of other groups."""

    def put(rows: list[dict[str, Any]]) -> None:
        group = min((row["part"], row["sex"], row["height"]) for row in rows if row["part"])
        for row in rows:
            if (row["part"], row["sex"], row["height"]) == group:
                row["part"] += 1

    copy.content(put)


def domain_of_age(copy: Copy) -> None:
    def put(manifest: dict[str, Any]) -> None:
        age = next(column for column in manifest["columns"] if column["name"] == "age")
        age["domain"]["high"] = 4711

    copy.claim(put)


def narrowed(_: int, row: dict[str, Any]) -> None:
    row["age_high"] = row["age_low"]


def plan(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.claim(lambda manifest: manifest["plan"].update(changes))


def operator(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.claim(lambda m: m["plan"]["operators"]["disease"].update(changes))


def claims(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.claim(lambda manifest: manifest.update(changes))


def listed_value(column: str, at: int) -> Callable[[Copy], None]:
    def put(manifest: dict[str, Any]) -> None:
        for each in manifest["columns"]:
            if each["name"] == column:
                each["domain"]["values"].insert(at, "zz judge")

    return lambda copy: copy.claim(put)


def reordered(manifest: dict[str, Any]) -> None:
    sex = next(column for column in manifest["columns"] if column["name"] == "sex")
    sex["domain"]["values"].reverse()


def scaled(copy: Copy) -> None:
    copy.claim(lambda m: m["plan"]["sampling"].update(
        scales=[1.5 * scale for scale in m["plan"]["sampling"]["scales"]]))  # fmt: skip


# the release, what was done to it, and a check that finds it without the receipt
CONTENT: dict[str, tuple[str, Callable[[Copy], None], str]] = {
    "a record is left out": ("uniform", lambda c: c.content(lambda rows: rows[1:]), "rows"),
    "a record comes twice": (
        "uniform", lambda c: c.content(lambda rows: [rows[0], *rows[:-1]]), "quasi-columns"),
    "another quasi-identifier": (
        "uniform", lambda c: c.content(lambda rows: rows[5].update(age=89 - rows[5]["age"] // 2)),
        "quasi-columns"),
    "those without flu are left out": (
        "uniform", left_out(lambda r: TRUTH[r["zip"]] != "flu" and r["zip"] % 2), "withheld"),
    "a record is left out, and said to be": (
        "decoys", left_out(lambda row: row["zip"] == 10_007), "withheld"),
    "rows of people with cancer are taken": (
        "people", other_rows_of_people(lambda row: row["disease"] == "cancer"), "draws"),
    "the first rows of people are taken": (
        "people", other_rows_of_people(lambda row: row["patient"] * 2 in
                                       (TABLE["zip"].to_pylist().index(row["zip"]),)), "draws"),
    "rows with cancer are taken into buckets": (
        "people in buckets", other_rows_of_people(lambda row: row["disease"] == "cancer"),
        "draws"),
    "the range of a quasi-identifier": ("buckets", domain_of_age, "domains"),
    "the threshold of fakes": ("buckets", plan(association="row 17: judge"), "facts"),
    "fakes all alike": ("fakes", fakes_all_alike, "draws"),
    "digits of an edge between blocks": ("blocks", lambda c: c.claim(digits_of_an_edge), "blocks"),
    "samples in another part": ("sampled", another_part, "scales"),
    "a stricter promise of one column": ("by column", lambda c: c.claim(
        lambda m: m["guarantee"].update(work="l-diversity(4)")), "ceilings"),
    "a member of two columns is moved": ("by column", lambda c: c.content(member_moved), "members"),
    "people dealt in the order of the table": ("buckets", dealt_by("place"), "draws"),
    "everybody is shown truly": ("uniform", shown_truly(lambda row: True), "draws"),
    "everybody is shown truly, fine": ("fine", shown_truly(lambda row: True), "draws"),
    "everybody is shown truly, decoys": ("decoys", shown_truly(lambda row: True), "draws"),
    "the old are shown truly": ("uniform", shown_truly(lambda row: row["age"] > 75), "draws"),
    "who has gout is shown truly": (
        "uniform", shown_truly(lambda row: TRUTH[row["zip"]] == "gout"), "draws"),
    "men with flu are shown truly": (
        "columns", shown_truly(lambda r: (r["sex"], TRUTH[r["zip"]]) == ("M", "flu")), "draws"),
    "nobody is shown truly": ("uniform", each(lambda _, row: row.update(
        disease=VALUES[(list(VALUES).index(TRUTH[row["zip"]]) + 1) % 6])), "draws"),
    "all values one": ("uniform", each(lambda _, row: row.update(disease="flu")), "draws"),
    "a larger retention is stated": ("uniform", operator(retention="9/10"), "amplification"),
    "a smaller retention is stated": ("uniform", operator(retention="1/100"), "draws"),
    "a stricter promise": (
        "uniform", claims(guarantee="rho-privacy(1/4, 1/3)"), "amplification"),
    "a stricter promise of buckets": ("buckets", claims(guarantee="l-diversity(4)"), "ceilings"),
    "a stricter promise of two columns": ("both", claims(guarantee="l-diversity(3)"), "ceilings"),
    "a stricter promise of decoys": (
        "decoys", claims(guarantee="small-sum(groups=4)"), "group-size"),
    "people of ranges are left out": (
        "ranges", left_out(lambda row: row["zip_low"] < 10_010), "withheld"),
    "people of buckets are left out": (
        "buckets", left_out(lambda row: row["zip"] < 10_010), "withheld"),
    "bits in the digits of a retention": ("uniform", of_operator(low_digits), "operators"),
    "bits in the digits of a retention, fine": ("fine", of_operator(low_digits), "operators"),
    "bits in the retention of two columns": ("columns", of_operator(low_digits), "operators"),
    "bits in the retention for people": ("people", of_operator(low_digits), "operators"),
    "a seed": ("uniform", claims(randomness="seeded"), "randomness"),
    "a mechanism that does not keep it": ("uniform", claims(mechanism="optimal"), "mechanism"),
    "fitted, it says": ("uniform", claims(fitted=["operators"]), "facts"),
    "what is fitted, in another order": ("ranges", claims(fitted=["domain of zip"]), "facts"),
    "values that are kept seldom": ("uniform", plan(floors={"disease": [0]}), "facts"),
    "missing values": ("uniform", claims(missing="value"), "facts"),
    "another part": ("parts", lambda c: c.content(lambda rows: [r.update(part=1 - r["part"])
                     if r["part"] < 2 and i < 9 else None for i, r in enumerate(rows)] and None),
                     "opening"),
    "a scale is stated": ("sampled", scaled, "plan-part"),
    "larger retentions": ("fine", of_operator(more_kept), "amplification"),
    "a larger retention of a part": ("parts", of_operator(
        lambda o: o["parts"][0]["operator"].update(retention="1/2")), "sub-tables"),
    "no scales": ("sampled", lambda c: c.claim(lambda m: m["plan"].pop("sampling")), "plan-part"),
    "all samples in one part": ("sampled", each(lambda _, row: row.update(part=0)), "scales"),
    "another operator of samples": ("sampled", operator(retention="3/4"), "plan-part"),
    "another merging": ("sampled", claims(mechanism="sps(significance=0.5)"), "plan-part"),
    "samples for a weaker promise": (
        "sampled", claims(guarantee="reconstruction-privacy(0.2, 0.2)"), "plan-part"),
    "samples for no such promise": (
        "sampled", claims(guarantee="reconstruction-privacy(0.3, 0.6)"), "plan"),
    "a value of a sample": ("sampled", each(lambda index, row: row.update(
        disease="flu" if row["disease"] != "flu" else "gout") if index == 9 else None), "copies"),
    "a record in another group": ("sampled", lambda c: c.content(
        lambda rows: rows[0].update(sex="FM"[rows[0]["sex"] == "F"])), "group-sizes"),
    "decoys turned into others": ("decoys", each(lambda _, row: row.update(
        disease=min(row["disease"], "flu"))), "draws"),
    "a raw group": ("sampled", raw_group, "copies"),
    "a group of samples loses a row": (
        "sampled", lambda c: c.content(lambda rows: rows[1:]), "group-sizes"),
    "a member is moved": ("buckets", lambda c: c.content(member_moved), "members"),
    "a value above its ceiling": ("buckets", bucket_above_its_ceiling, "ceilings"),
    "a list with another value": ("buckets", lambda c: c.content(
        lambda rows: rows[0].update(disease="flu" if rows[0]["disease"] != "flu" else "gout"),
        LISTS), "bucket-histogram"),
    "a list that is longer": ("buckets", lambda c: c.content(
        lambda rows: rows[0].update(count=rows[0]["count"] + 1), LISTS), "bucket-sizes"),
    "people dealt by age": ("buckets", dealt_by("age"), "draws"),
    "people of blocks dealt by age": ("blocks", lambda c: c.content(member_moved), "members"),
    "fewer fakes": ("fakes", plan(fakes=0), "bucket-sizes"),
    "a histogram behind fakes": ("fakes", lambda c: c.claim(lambda m: m["plan"].update(
        histogram=m["plan"]["histogram"][::-1])), "bucket-histogram"),
    "narrowed ranges": ("ranges", each(narrowed), "coverage"),
    "values of other rows": ("ring", lambda c: c.content(values_of_other_rows), "promise"),
    "values invented": ("ranges", each(lambda _, row: row.update(disease="flu")), "value-counts"),
    "a person more in a cell": ("ring", lambda c: c.claim(lambda m: m["plan"]["marginals"]["age"][
        "people"].__setitem__(0, m["plan"]["marginals"]["age"]["people"][0] + 1)), "marginals"),
    "more matches": ("groups", plan(matches=40), "coverage"),
    "a value that nobody has": ("uniform", listed_value("sex", 2), "domains"),
    "sensitive values that nobody has": ("buckets", listed_value("disease", 6), "domains"),
    "values in another order": ("uniform", lambda c: c.claim(reordered), "domains"),
    "two rows of a person": ("people", lambda c: c.content(second_row), "person-most"),
    "a stricter promise of people": (
        "people", claims(guarantee="rho-privacy(1/4, 1/3)"), "amplification"),
    "a rare value listed more often": ("people in buckets", lambda c: c.content(
        lambda rows: [r.update(disease="ulcer") for r in rows if r["disease"] == "gout"]
        and None, LISTS), "bucket-histogram"),
    "rows of people that were not taken": ("people", lambda c: c.claim(
        lambda m: (m["person"].update(suppressed=7), m.update(suppressed=7))), "person-rows"),
}  # fmt: skip

# what no statistics can find: only the receipt
KEYED: dict[str, tuple[str, Callable[[Copy], None]]] = {
    "every ninth person by a secret hash is shown truly": (
        "uniform", shown_truly(lambda row: hashed(row) % 40 == 0)),
    "a dozen people are shown truly": (
        "columns", shown_truly(lambda row: row["zip"] in range(10_007, 10_019))),
    "a draw is changed": ("fine", lambda c: c.content(
        lambda rows: rows[3].update(disease="gout" if rows[3]["disease"] != "gout" else "flu"))),
    # answers are read by it: whoever understates it makes rare values look common
    **{f"people that rows of {name} span": (name, lambda c: c.claim(
        lambda m: m["plan"].update(spans=m["plan"]["spans"] + 1)))
       for name in ("ring", "ranges", "groups")},
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASES)
def test_honest_releases_pass(releases: Path, name: str) -> None:
    alone = sf.audit(TABLE, releases / name)
    undecided = {f.check.name for f in alone.findings if f.holds is None}
    ranges = RELEASES[name][1] in ("heterogeneous", "ring", "burel")
    assert alone.holds is not False, alone
    assert undecided == ({"promise"} if ranges else set()), alone
    with_receipt = sf.audit(TABLE, releases / name, receipt=releases / f"{name}.receipt")
    assert with_receipt.holds, with_receipt
    assert "tried keys until one pleased, no audit excludes" in with_receipt.headline
    without_table = sf.audit(None, releases / name)
    assert [f.check.name for f in without_table.findings if not f.holds] == ["promise"] * len(
        Release(releases / name).sensitive
    )


@pytest.mark.parametrize("name", RELEASES)
def test_one_record_and_one_sentence_are_found_by_the_receipt(
    releases: Path, name: str, tmp_path: Path
) -> None:
    copy = Copy(shutil.copytree(releases / name, tmp_path / "copy"))
    records = copy.table()
    column = next(c for c in ("disease", "work", "bucket") if c in records.column_names)
    values = records[column].to_pylist()
    values[-1] = next(value for value in values if value != values[-1])
    index = records.schema.get_field_index(column)
    others = pa.array(values, records.schema.field(index).type)
    copy.written(RECORDS, records.set_column(index, column, others))
    edit(lambda m: m["statement"].append(JUDGE))(copy)
    verdict = sf.audit(TABLE, copy.folder, receipt=releases / f"{name}.receipt")
    failed = {f.check.name: f for f in verdict.findings if f.holds is False}
    assert failed["replay"].value == 1
    assert failed["replay-manifest"].listed == ("statement",)
    assert "manifest.json: statement" in failed["spelling"].listed


@pytest.mark.parametrize("mutant", SPELLING)
def test_another_spelling_is_found_without_a_table(
    releases: Path, mutant: str, tmp_path: Path
) -> None:
    name, change = SPELLING[mutant]
    shutil.copytree(releases / name, tmp_path / "copy")
    change(Copy(tmp_path / "copy"))
    try:
        verdict = sf.audit(None, tmp_path / "copy")
    except SfumatoError:
        return  # cannot even be opened
    found = {f.check.name: f for f in verdict.findings}
    assert found["spelling"].holds is False, verdict
    assert str(verdict).startswith("The release does NOT keep its promise")


@pytest.mark.parametrize("mutant", CONTENT)
def test_another_content_is_found_with_the_table(
    releases: Path, mutant: str, tmp_path: Path
) -> None:
    name, change, check = CONTENT[mutant]
    shutil.copytree(releases / name, tmp_path / "copy")
    try:
        change(Copy(tmp_path / "copy"))
        verdict = audited(tmp_path / "copy")
    except SfumatoError:
        verdict = None
    if verdict is None:
        assert check in ("opening", "mechanism", "bucket-sizes"), check
        return
    failed = {f.check.name for f in verdict.findings if not f.holds}
    assert check in failed, verdict.text(verbose=True)


@pytest.mark.parametrize("mutant", [*KEYED, "everybody is shown truly", "a member is moved",
                                    "values of other rows", "a scale is stated"])  # fmt: skip
def test_the_receipt_finds_what_nothing_else_can(
    releases: Path, mutant: str, tmp_path: Path
) -> None:
    name, change = KEYED.get(mutant) or CONTENT[mutant][:2]
    shutil.copytree(releases / name, tmp_path / "copy")
    change(Copy(tmp_path / "copy"))
    if mutant in KEYED:
        alone = audited(tmp_path / "copy")
        assert alone is not None
        assert alone.holds is not False, alone
        if alone.holds:
            assert "a keyed choice by the publisher with the receipt alone" in str(alone)
    verdict = audited(tmp_path / "copy", releases / f"{name}.receipt")
    assert verdict is not None
    failed = {f.check.name for f in verdict.findings if f.holds is False}
    assert failed & {"replay", "replay-manifest"}, verdict


@pytest.mark.parametrize("mutant", ["metadata of the file", "stray bytes", "blanks in the manifest",
                                    "unused dictionary entry", "row groups", "digits in created_by",
                                    "a caveat"])  # fmt: skip
def test_a_receipt_does_not_hide_another_spelling(
    releases: Path, mutant: str, tmp_path: Path
) -> None:
    """Draws that repeat say nothing of how files are written."""
    name, change = SPELLING[mutant]
    shutil.copytree(releases / name, tmp_path / "copy")
    change(Copy(tmp_path / "copy"))
    verdict = audited(tmp_path / "copy", releases / f"{name}.receipt")
    assert verdict is None or "spelling" in {
        f.check.name for f in verdict.findings if f.holds is False
    }


def test_a_receipt_that_calls_a_seed_a_system_key(tmp_path: Path) -> None:
    """`randomness` was edited, in the receipt and in the release."""
    sf.publish(TABLE, "rho-privacy(1/4, 1/2)", mechanism="uniform", to=tmp_path / "r", seed=471,
               receipt=tmp_path / "receipt", drop_rest=True, left_out=1, **ROLES)  # fmt: skip
    path = tmp_path / "receipt"
    path.write_text(path.read_text().replace('"randomness": "seeded"', '"randomness": "system"'))
    Copy(tmp_path / "r").claim(lambda manifest: manifest.update(randomness="system"))
    verdict = sf.audit(TABLE, tmp_path / "r", receipt=path)
    (key,) = [f for f in verdict.findings if f.check.name == "key"]
    assert key.holds is False
    assert "the seed 471" in str(key)


def test_a_receipt_that_calls_a_system_key_a_key_file(releases: Path, tmp_path: Path) -> None:
    """It names no column of keys: once a traceback."""
    shutil.copytree(releases / "uniform", tmp_path / "r")
    Copy(tmp_path / "r").claim(lambda manifest: manifest.update(randomness="key-file"))
    path = tmp_path / "receipt"
    text = (releases / "uniform.receipt").read_text()
    path.write_text(text.replace('"randomness": "system"', '"randomness": "key-file"'))
    path.chmod(0o600)
    verdict = sf.audit(TABLE, tmp_path / "r", receipt=path)
    assert "names no column of keys" in str(verdict)


def test_a_clean_copy_of_a_soiled_release(releases: Path, tmp_path: Path, cli: Any) -> None:
    """`audit --rewrite` keeps the content and nothing else."""
    pq.write_table(TABLE, tmp_path / "table.parquet")
    shutil.copytree(releases / "buckets", tmp_path / "copy")
    for change in (lists_in_the_order_of_records, SPELLING["a caveat"][1]):
        change(Copy(tmp_path / "copy"))
    audit = ("audit", tmp_path / "table.parquet")
    assert cli(*audit, tmp_path / "copy", "--rewrite", tmp_path / "clean").code == 4
    done = cli(*audit, tmp_path / "clean", "--verbose")
    assert done.code == 0, done.out
    assert "parts that are not as the content spells them" in done.out
    told = [(releases / "buckets" / name).read_bytes() for name in (RECORDS, LISTS)]
    assert told == [(tmp_path / "clean" / name).read_bytes() for name in (RECORDS, LISTS)]


def test_more_than_one_crash_of_old(releases: Path, tmp_path: Path) -> None:
    """Another k of merged quasi-identifiers; keys that repeat beside two columns."""
    sf.publish(TABLE, "l-diversity(2)", to=tmp_path / "k", quasi=["age", "sex"], quasi_k=20,
               sensitive="disease", drop_rest=True)  # fmt: skip
    Copy(tmp_path / "k").claim(lambda manifest: manifest["quasi_k"].update(k=50))
    assert sf.audit(TABLE, tmp_path / "k").holds is False
    twice = sf.audit(TABLE, releases / "both", key="patient")
    assert "person-together" in {f.check.name for f in twice.findings if f.holds is False}
