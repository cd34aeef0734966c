"""What a question asks of the records and of the values, written down once, for every kind.

Two statements serve. `lines`: the records that satisfy the quasi conditions, summed by quasi keys
`k…`, by quasi parts of mixed expressions `m…` and by what they show `r…`. `cells`: for every
combination of the `m…` (a *profile*) and every value, the remaining keys, conditions and arguments.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.queries.aggregates import LinearSum
from sfumato.queries.classes import ByValue, numbers_of
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
        if self.factors:  # where an argument that is no factor is missing, nothing is added
            beside = [text for text in self.known if text not in self.factors]
            where += [is_known(over(self.terms[text], records)) for text in beside]
            return total([over(self.terms[text], records) for text in self.factors], where)
        factors = [over(self.terms[text], records) for text in self.known]
        if len(factors) <= 1:
            return count(factors[0] if factors else None, where)
        return count(None, [*where, *(is_known(factor) for factor in factors)])


@dataclass(frozen=True, eq=False)
class Planned:
    """A statistic of the question: its weight, and the cells' columns of h and of where it is
    known."""

    weight: Weight
    values: str | None
    there: str | None
    is_exact: bool  # no sensitive column touches it: counted, not estimated


class QuestionPlan:
    """What is asked of the records and of the values, written down once for a question.

    `columns` are the sensitive columns that it is about, `shown` the columns of the records that
    the estimator has to see.
    """

    def __init__(
        self, question: Question, session: Session, columns: Sequence[str], shown: Sequence[str]
    ) -> None:
        self.question, self.session, self.columns = question, session, tuple(columns)
        self.shown = {name: f"r{index}" for index, name in enumerate(shown)}
        self.records = session.record_columns()
        self._originals: dict[str, Node] = {
            name: column(f"w{index}", "original") for index, name in enumerate(columns)
        }
        self._mixed, self._cells = Stage("m"), Stage("c")
        self._sums: dict[Weight, str] = {}
        self._weights: dict[tuple[Weight, ...], str] = {}
        self.quasi = [index for index, key in enumerate(question.keys) if not key.sensitive]
        self._keys = {
            index: self._over_cells(key) for index, key in enumerate(question.keys) if key.sensitive
        }
        self._where = [self._over_cells(term) for term in question.where if term.sensitive]
        self.sums = [
            [self._planned(sum_) for sum_ in aggregate.sums] for aggregate in question.aggregates
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
        factors, weights, conditions = ([self._over_cells(t) for t in part] for part in cells)
        asked = [*conditions, *(is_known(node) for node in weights)]
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
            self._add(one.weight.number, one.weight.number)  # shrinking weighs the noise of counts
            if not one.is_exact:
                for other in group:
                    if not other.is_exact:
                        self._add(one.weight, other.weight)

    def _add(self, *weights: Weight) -> None:
        product = weights[0] if len(weights) == 1 else weights[0] * weights[1]
        self._weights[weights] = self._sums.setdefault(product, f"s{len(self._sums)}")

    # -- lines ---------------------------------------------------------------------------------

    def record_sums(self) -> RecordSums:
        keys: list[Node] = [
            named(over(self.question.keys[index], self.records), f"k{index}")
            for index in self.quasi
        ]
        keys += self._mixed.columns()
        keys += [named(self.records[name].copy(), short) for name, short in self.shown.items()]
        conditions = [
            over(term, self.records) for term in self.question.where if not term.sensitive
        ]
        sums = [named(weight.node(self.records), name) for weight, name in self._sums.items()]
        return RecordSums(keys, sums, conditions)

    def weights(self) -> Mapping[tuple[Weight, ...], str]:
        """The column of `lines` that has the sum of every weight, or of the product of two."""
        return self._weights

    def moments_of(self, lines: pa.Table) -> dict[tuple[Hashable, ...], FloatArray]:
        """Sums by weight and by product of weights."""
        columns = {name: numbers_of(lines.column(name)) for name in self._sums.values()}
        return {weights: columns[name] for weights, name in self._weights.items()}

    # -- cells ---------------------------------------------------------------------------------

    def domain_tables(self, domains: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return {
            f"w{index}": pa.table({"original": domain, "place": np.arange(len(domain))})
            for index, domain in enumerate(domains)
        }

    def read_cells(self, domains: Sequence[pa.Array], profiles: pa.Table) -> ByValue:
        """Keys, conditions and arguments for every profile and value."""
        shape = (len(profiles) if self.mixed else 1, *map(len, domains))
        if int(np.prod(shape, dtype=np.float64)) > MOST_CELLS:
            raise QueryError(
                f"The question ties {shape[0]:,} combinations of quasi values to "
                f"{int(np.prod(shape[1:])):,} sensitive ones, more than {MOST_CELLS:,} together. "
                "Ask about sensitive columns one by one, or round the quasi-identifier."
            )
        computed = [*self.mixed, *self._where, *self._cells.names]
        if not computed and all(self.question.keys[key].column for key in self._keys):
            return ByValue(shape, self._plain_cells(domains))
        tables = self.domain_tables(domains)
        places = [named(column(name, "place"), f"x{n}") for n, name in enumerate(tables)]
        if self.mixed:
            tables["p"] = profiles.append_column("place", pa.array(np.arange(len(profiles))))
            places.append(named(column("p", "place"), "profile"))
        keys = [named(node, f"k{index}") for index, node in self._keys.items()]
        first, *others = tables
        statement = select(
            [*places, *keys, *self._cells.columns()],
            first,
            beside=others,
            where=self._where,
        )
        return ByValue(shape, self.session.run(statement, tables))

    def _plain_cells(self, domains: Sequence[pa.Array]) -> pa.Table:
        """Where every value counts, and keys are columns, there is nothing to compute."""
        places = np.indices([len(domain) for domain in domains]).reshape(len(domains), -1)
        plain_cells = {f"x{n}": pa.array(place_of_key) for n, place_of_key in enumerate(places)}
        for key in self._keys:
            index = self.columns.index(str(self.question.keys[key].column))
            plain_cells[f"k{key}"] = domains[index].take(plain_cells[f"x{index}"])
        return pa.table(plain_cells)

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
