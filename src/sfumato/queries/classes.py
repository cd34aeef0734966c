"""What a question asks of the records, class by class, and of the values of sensitive columns.

Two statements serve every kind of release. `lines`: the records that satisfy the quasi conditions,
summed by quasi keys `k…`, by quasi parts of mixed expressions `m…` and by what they show `r…`.
`cells`: for every combination of the `m…` (a *profile*) and every value, the remaining keys,
conditions and arguments. Everything after that is numpy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.draws import BoolArray, IntArray
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Forms, Statistic
from sfumato.queries.aggregates import LinearSum
from sfumato.queries.dialect import Node
from sfumato.queries.question import Question, Term
from sfumato.queries.session import Session
from sfumato.queries.statements import (
    RecordSums,
    Stage,
    all_of,
    as_double,
    column,
    count,
    hoisted,
    is_known,
    named,
    over,
    select,
    total,
)

MOST_CELLS = 20_000_000


@dataclass(frozen=True)
class Weight:
    """e(r), quasi: the product of `factors` where `filter` holds and `known` are known.

    Two weights are equal if their texts are; `terms` has the expressions by text.
    """

    factors: tuple[str, ...]
    known: tuple[str, ...]
    filter: tuple[str, ...]
    terms: Mapping[str, Term] = field(compare=False, repr=False)

    @classmethod
    def of(
        cls, factors: Sequence[Term], known: Sequence[Term], conditions: Sequence[Term]
    ) -> Weight:
        terms = {term.text: term for term in (*factors, *known, *conditions)}
        texts = [tuple(sorted(term.text for term in part)) for part in (factors, known, conditions)]
        return cls(texts[0], tuple(dict.fromkeys(texts[1])), tuple(dict.fromkeys(texts[2])), terms)

    def __mul__(self, other: Weight) -> Weight:
        return Weight.of(
            *(
                [self.terms[text] for text in one] + [other.terms[text] for text in two]
                for one, two in (
                    (self.factors, other.factors),
                    (self.known, other.known),
                    (self.filter, other.filter),
                )
            )
        )

    @property
    def number(self) -> Weight:
        """How many records it is a sum over."""
        return Weight((), self.known, self.filter, self.terms)

    def node(self, records: Mapping[str, Node]) -> Node:
        """The aggregate over the records."""
        where = [over(self.terms[text], records) for text in self.filter]
        if self.factors:
            return total([over(self.terms[text], records) for text in self.factors], where)
        known = [over(self.terms[text], records) for text in self.known]
        if len(known) <= 1:
            return count(known[0] if known else None, where)
        return count(None, [*where, *(is_known(each) for each in known)])


@dataclass(frozen=True, eq=False)
class Planned:
    """A statistic of the question: its weight, and the cells' columns of h and of where it is."""

    weight: Weight
    values: str | None
    there: str | None
    is_exact: bool  # no sensitive column touches it: counted, not estimated


class Plan:
    """What is asked of the records and of the values, written down once for a question.

    `columns` are the sensitive columns that it is about, `shown` the columns of the records that
    the estimator has to see.
    """

    def __init__(
        self, question: Question, session: Session, columns: Sequence[str], shown: Sequence[str]
    ) -> None:
        self.question, self.session, self.columns = question, session, tuple(columns)
        self.shown = {name: f"r{place}" for place, name in enumerate(shown)}
        self.records = session.record_columns()
        self._originals: dict[str, Node] = {
            name: column(f"w{place}", "original") for place, name in enumerate(columns)
        }
        self._mixed, self._cells, self._sums = Stage("m"), Stage("c"), Stage("s")
        self._weights: dict[tuple[Weight, ...], str] = {}
        self.quasi = [place for place, key in enumerate(question.keys) if not key.sensitive]
        self._keys = {
            place: self._over_cells(key) for place, key in enumerate(question.keys) if key.sensitive
        }
        self._where = [self._over_cells(term) for term in question.where if term.sensitive]
        self.sums = [
            [self._planned(each) for each in aggregate.sums()] for aggregate in question.aggregates
        ]
        for group in self.sums:
            self._add_weights(group)

    @property
    def mixed(self) -> list[str]:
        return self._mixed.names

    def _over_cells(self, term: Term) -> Node:
        def carry(node: Node) -> Node:
            return column("p", self._mixed.add(node))

        return hoisted(term, self.records, self._originals, carry)

    def _planned(self, each: LinearSum) -> Planned:
        quasi, cells = (
            [
                [term for term in part if bool(term.sensitive) == inside]
                for part in (each.factors, each.known, each.filter)
            ]
            for inside in (False, True)
        )
        weight = Weight.of(*quasi)
        factors, known, conditions = ([self._over_cells(t) for t in part] for part in cells)
        asked = [*conditions, *(is_known(node) for node in known)]
        there = self._cells.add(all_of(asked)) if asked else None
        values = None
        if factors:
            whole: Node = as_double(factors[0])
            for node in factors[1:]:
                whole = exp.Mul(this=whole, expression=as_double(node))
            values = self._cells.add(whole)
        touched = self._keys or self._where or asked or factors
        return Planned(weight, values, there, not touched)

    def _add_weights(self, group: Sequence[Planned]) -> None:
        for one in group:
            self._add(one.weight)
            self._add(one.weight.number)
            if not one.is_exact:
                for other in group:
                    self._add(one.weight, other.weight)

    def _add(self, *weights: Weight) -> None:
        product = weights[0] if len(weights) == 1 else weights[0] * weights[1]
        self._weights[weights] = self._sums.add(product.node(self.records))

    # -- lines ---------------------------------------------------------------------------------

    def record_sums(self) -> RecordSums:
        keys: list[Node] = [
            named(over(self.question.keys[place], self.records), f"k{place}")
            for place in self.quasi
        ]
        keys += self._mixed.columns()
        keys += [named(self.records[name].copy(), short) for name, short in self.shown.items()]
        known = [over(term, self.records) for term in self.question.where if not term.sensitive]
        return RecordSums(keys, self._sums.columns(), known)

    def weights(self) -> Mapping[tuple[Weight, ...], str]:
        """The column of `lines` that has the sum of every weight, or of the product of two."""
        return self._weights

    def moments_of(self, lines: pa.Table) -> dict[tuple[Hashable, ...], FloatArray]:
        """Sums by weight and by product of weights."""
        columns = {name: _numbers(lines.column(name)) for name in self._sums.names}
        return {weights: columns[name] for weights, name in self._weights.items()}

    # -- cells ---------------------------------------------------------------------------------

    def domain_tables(self, domains: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return {
            f"w{place}": pa.table({"original": domain, "place": np.arange(len(domain))})
            for place, domain in enumerate(domains)
        }

    def read_cells(self, domains: Sequence[pa.Array], profiles: pa.Table) -> Cells:
        """Keys, conditions and arguments for every profile and value."""
        shape = (len(profiles) if self.mixed else 1, *map(len, domains))
        if int(np.prod(shape, dtype=np.float64)) > MOST_CELLS:
            raise QueryError(
                f"The question ties {shape[0]:,} combinations of quasi values to "
                f"{int(np.prod(shape[1:])):,} sensitive ones, more than {MOST_CELLS:,} together. "
                "Ask about sensitive columns one by one, or round the quasi column."
            )
        computed = [*self.mixed, *self._where, *self._cells.names]
        if not computed and all(self.question.keys[place].column for place in self._keys):
            return Cells(shape, self._plain_cells(domains))
        tables = self.domain_tables(domains)
        places = [named(column(name, "place"), f"x{n}") for n, name in enumerate(tables)]
        if self.mixed:
            tables["p"] = profiles.append_column("place", pa.array(np.arange(len(profiles))))
            places.append(named(column("p", "place"), "profile"))
        keys = [named(node, f"k{place}") for place, node in self._keys.items()]
        first, *others = tables
        statement = select(
            [*places, *keys, *self._cells.columns()],
            first,
            beside=[(name, name) for name in others],
            where=self._where,
        )
        return Cells(shape, self.session.run(statement, tables))

    def _plain_cells(self, domains: Sequence[pa.Array]) -> pa.Table:
        """Where every value counts, and keys are columns, there is nothing to compute."""
        places = np.indices([len(each) for each in domains]).reshape(len(domains), -1)
        found = {f"x{n}": pa.array(each) for n, each in enumerate(places)}
        for place in self._keys:
            own = self.columns.index(str(self.question.keys[place].column))
            found[f"k{place}"] = domains[own].take(found[f"x{own}"])
        return pa.table(found)

    def types_of(self, terms: Sequence[Term], domains: Sequence[pa.Array]) -> list[str]:
        """The DuckDB types of terms over the records and the original values."""
        columns = {**self.records, **self._originals}
        used = {name for term in terms for name in term.sensitive}
        tables = {
            name: table
            for own, (name, table) in zip(
                self.columns, self.domain_tables(domains).items(), strict=True
            )
            if own in used
        }
        return self.session.types([over(term, columns) for term in terms], tables)


class Cells:
    """The table of `Plan.read_cells` as arrays by (profile, value …)."""

    def __init__(self, shape: tuple[int, ...], table: pa.Table) -> None:
        self._shape, self.table = shape, table
        values = [_places(table, f"x{n}") for n in range(len(shape) - 1)]
        profile = (
            _places(table, "profile")
            if "profile" in table.column_names
            else np.zeros(len(table), np.int64)
        )
        self._at = profile, *values
        keys = [name for name in table.column_names if name.startswith("k")]
        self.key, self.first_of_key = numbered([table.column(name) for name in keys], len(table))
        self._values: dict[tuple[str | None, str | None], tuple[FloatArray, BoolArray]] = {}

    @cached_property
    def forms(self) -> tuple[IntArray, IntArray, IntArray]:
        """The form of every (profile, value …), the first of each profile, and the key of each."""
        keys = max(len(self.first_of_key), 1)
        known, form = np.unique(self._at[0] * keys + self.key, return_inverse=True)
        cells = np.full(self._shape, -1)
        cells[self._at] = form
        first = np.searchsorted(known // keys, np.arange(self._shape[0] + 1))
        return cells, first, known % keys

    def statistic(self, planned: Planned) -> Statistic:
        place = planned.values, planned.there
        if place not in self._values:
            there: BoolArray = np.zeros(self._shape, np.bool_)
            there[self._at] = True if planned.there is None else self._flags(planned.there)
            values = there.astype(np.float64)
            if planned.values is not None:
                numbers = np.zeros(self._shape)
                numbers[self._at] = _numbers(self.table.column(planned.values))
                values = np.where(there, numbers, 0.0)
            self._values[place] = values, there
        values, there = self._values[place]
        return Statistic(planned.weight, planned.weight.number, values, there)

    def _flags(self, name: str) -> BoolArray:
        found = pc.fill_null(self.table.column(name).cast(pa.bool_()), False)
        return np.asarray(found.to_numpy(), np.bool_)


@dataclass(frozen=True, eq=False)
class Classes:
    """The lines of a question by class: equal quasi keys and equal profile."""

    of: IntArray  # the class of every line
    key: IntArray  # of every class: which combination of quasi keys it has
    profile: IntArray
    first_of_key: IntArray  # a line with these quasi keys
    profiles: pa.Table

    @classmethod
    def read(cls, lines: pa.Table, plan: Plan) -> Classes:
        keys, first = numbered([lines.column(f"k{place}") for place in plan.quasi], len(lines))
        profile, first_profile = numbered([lines.column(name) for name in plan.mixed], len(lines))
        many = max(len(first_profile), 1)
        known, of = np.unique(keys * many + profile, return_inverse=True)
        profiles = lines.select(plan.mixed).take(pa.array(first_profile))
        return cls(of, known // many, known % many, first, profiles)

    @property
    def number(self) -> int:
        return len(self.key)

    def forms(self, cells: Cells) -> Forms:
        numbers, first, _ = cells.forms
        return Forms.of(self.profile, numbers, first)

    def only(self, lines: IntArray) -> Classes:
        """Some of the lines; classes without any stay."""
        return Classes(self.of[lines], self.key, self.profile, self.first_of_key, self.profiles)


def numbered(columns: Sequence[pa.ChunkedArray], rows: int) -> tuple[IntArray, IntArray]:
    """Equal lines get equal numbers: that of every line, and a line of every number.

    >>> sexes = pa.chunked_array([["F", None, "F"]])
    >>> numbered([sexes], 3)
    (array([0, 1, 0]), array([0, 1]))
    """
    whole = np.zeros(rows, np.int64)
    for each in columns:
        if pa.types.is_floating(each.type):
            each = pc.add(each, pa.scalar(0.0, each.type))  # −0 is 0
        codes = _encoded(each)
        whole = whole * (int(codes.max(initial=-1)) + 1) + codes
        # so that numbers stay small however many columns there are
        whole = np.unique(whole, return_inverse=True)[1]
    first = np.unique(whole, return_index=True)[1]
    return whole, first


def _encoded(values: pa.ChunkedArray) -> IntArray:
    try:
        found = pc.dictionary_encode(values, null_encoding="encode").combine_chunks()
        if isinstance(found, pa.ChunkedArray):
            found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([])
        return np.asarray(found.indices.to_numpy(), np.int64) if len(found) else np.empty(0, int)
    except pa.ArrowNotImplementedError:  # intervals of time
        known: dict[object, int] = {}
        return np.array([known.setdefault(v, len(known)) for v in values.to_pylist()], np.int64)


def _numbers(values: pa.ChunkedArray) -> FloatArray:
    found = values.cast(pa.float64()) if not pa.types.is_float64(values.type) else values
    return np.asarray(pc.fill_null(found, 0.0).to_numpy(), np.float64)


def _places(table: pa.Table, name: str) -> IntArray:
    return np.asarray(table.column(name).to_numpy(), np.int64)
