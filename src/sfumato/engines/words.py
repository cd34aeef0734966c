"""Every sentence of a release, made from what its manifest says: an audit makes them again.

No sentence depends on a count that the release does not show. Bucketed releases list how many
people have each value, so their sentences may name such counts; all others know domains alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from sfumato.blocks import BlockTree
from sfumato.columns import Value, Values, in_json, list_some, value_text
from sfumato.errors import SfumatoError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, Plan, parse_mechanism
from sfumato.mechanisms.buckets.fakes import certainty
from sfumato.mechanisms.buckets.tree import ODDS
from sfumato.mechanisms.partitioning.coupling import FAILURE
from sfumato.mechanisms.perturbed import ldp_caveat
from sfumato.operators import AnyOperator
from sfumato.operators.parts import Parts
from sfumato.profile import Histogram
from sfumato.public import PublicPlan, fitted_of, values_of
from sfumato.release import KINDS, BucketedRelease, Manifest, PerturbedRelease, Release

_FITTED = {  # how a statement calls what is fitted; ranges and sets say themselves for whom
    "operators": "the operator",
    "sampling": "parts and suppressed groups",
    "merges": "which quasi values were merged",
}


@dataclass(frozen=True, eq=False)
class Facts:
    """What sentences may depend on: `plan` is the public part, and counts are zero where the
    release does not show them."""

    kind: type[Release]
    mechanism: Mechanism | None  # None for one that nobody here knows
    guarantee: Guarantee
    plan: Mapping[str, Any]
    histograms: Mapping[str, Histogram]
    fitted: Sequence[str] = ()  # what of them follows from counts that the release hides
    suppressed: int = 0

    @classmethod
    def of_plan(
        cls,
        mechanism: Mechanism,
        guarantee: Guarantee,
        plan: Plan,
        counted: Mapping[str, Histogram],
        domains: PublicPlan = MappingProxyType({}),
    ) -> Facts:
        """What a plan would say of itself, and of domains that follow from what `domains` says."""
        kind = KINDS[plan.kind]
        shown = (
            counted
            if kind is BucketedRelease
            else {n: _domain(n, h.values) for n, h in counted.items()}
        )
        public = plan.public()
        hidden = fitted_of(public, domains)
        return cls(kind, mechanism, guarantee, values_of(public), shown, hidden, plan.withheld)

    def statement(self) -> list[str]:
        """The promise in plain words, column by column; narrower where the mechanism's is."""
        first, *further = self.histograms.values()
        return [
            self._promise(first, self.guarantee.statement(first)),
            *(self._promise(one, self.guarantee.statement_of_further(one)) for one in further),
        ]

    def caveats(self) -> list[str]:
        """What belongs beside it."""
        kinds = {PerturbedRelease: self._perturbed, BucketedRelease: self._bucketed}
        beside = [] if self.mechanism is None else self.mechanism.beside(self.plan)
        return [*kinds.get(self.kind, lambda: iter(()))(), *beside]

    def _promise(self, histogram: Histogram, said: str) -> str:
        if self.kind is BucketedRelease:
            # the sensitive table shows the histogram, so the manifest may
            said = f"{self.guarantee.left_out_text(histogram)} {said}".lstrip() + self._blocks()
        elif self.plan.get("part_columns"):
            said = self.guarantee.statement_by_parts(histogram, FAILURE)
        said += self._hidden(histogram.column)
        return said if self.mechanism is None else said + self.mechanism.narrows

    def _hidden(self, column: str) -> str:
        """For whom the promise does not hold, where something follows from hidden counts."""
        said, named = "", [words for name, words in _FITTED.items() if name in self.fitted]
        if named:
            said += (
                " This does not hold against whoever knows the values of everybody else: "
                f"{', '.join(named)} may tell them this person's."
            )
        if f"domain of {column}" in self.fitted:
            said += (
                " Whoever knows the values of everybody else may learn which value the domain "
                "lists, or the recode rare keeps, only because of this person; a stated domain "
                "without rare tells nothing."
            )
        return said

    def _blocks(self) -> str:
        if not self.plan.get("blocks"):
            return ""
        tree, _ = BlockTree.from_json(list(self.plan["blocks"]))
        return (
            f" People are mixed inside {tree.blocks} blocks only, which are cut by "
            f"{list_some(tree.columns)}. Cuts follow from quasi-identifiers; that one was refused "
            f"raises the odds of a value to {ODDS} of what a bucket shows at most, and the ceiling "
            "has room for it: it holds for whoever knows the quasi-identifiers of everybody, the "
            "program and this release, and no association that goes on inside a block."
        )

    def _bucketed(self) -> Iterator[str]:
        named, fakes = ", ".join(self.histograms), self.plan.get("fakes", 0)
        if len(self.histograms) > 1:
            yield (
                f"The release shows how many people have each combination of {named}, exactly, and "
                "which combinations stand in a bucket. Whoever knows one of these values of a "
                "person often finds the others beside it."
            )
        else:
            yield f"Column {named!r}: the release shows how many people have each value, exactly."
        sizes = sorted(part["size"] for part in self.plan["sizes"] if part["buckets"])
        certainties = [
            f"{size} records, knowing all but one leaves a certainty of "
            f"{'at least ' if fakes else ''}{certainty(size, fakes, size - 1)}"
            for size in sorted({sizes[0], sizes[-1]} if sizes else ())
        ]
        if certainties:
            yield (
                "Whoever knows the values of others in a bucket is surer of the rest: in a bucket "
                f"of {'; of '.join(certainties)}."
            )
        if fakes:
            yield (
                "Fakes follow how common values are but for chance, and the manifest says how many "
                "people have each value: whoever counts how often it is listed knows with which "
                "chance it is a fake, and of a value listed no more often that it is none."
            )
        if self.plan.get("association"):
            yield (
                "Fake values follow the quasi-identifiers of their bucket: they are ruled out by a "
                "record as often as real values are, so answers are corrected for fakes only "
                "approximately. The certainties above are those of a reader who rules nothing out "
                "by the person's own columns; one who does is surer."
            )

    def _perturbed(self) -> Iterator[str]:
        sampling = self.plan.get("sampling")
        if sampling is not None:
            yield from self._sampled(sampling)
            return
        operators = msgspec.convert(self.plan["operators"], dict[str, AnyOperator])
        for column, operator in operators.items():
            if isinstance(operator, Parts):
                yield from self._parts(column, operator)
            elif operator.form != "decoy":
                yield ldp_caveat(column, operator)
        if any(operator.form == "decoy" for operator in operators.values()):
            yield (
                "Small-sum privacy is promised for sums over one value. For a value together with "
                "quasi-identifiers it may not hold: people who agree in all of these and share the "
                "value can be recognised by its frequency."
            )
        if "operators" in self.fitted and not self.plan.get("part_columns"):
            yield from (
                f"Column {column!r}: the operator was fitted to how common each value is, rounded "
                "to a few binary digits, and tells that much about the shares."
                for column in operators
            )
        for column, codes in self.plan.get("floors", {}).items():
            yield (
                f"Column {column!r}: counts of {self._named(column, codes)} are estimated with "
                "little precision; these values are retained only as often as p_min says."
            )

    def _named(self, column: str, codes: Any) -> str:
        values = self.histograms[column].values
        return list_some([value_text(values[code]) for code in codes])

    def _parts(self, column: str, operator: Parts) -> Iterator[str]:
        fewest = min(operator.parts, key=lambda part: len(part.codes))
        if len(operator.parts) > 1:
            yield (
                f"The column {self.plan['part_columns'][column]!r} is published and tells which "
                f"values of {column!r} a record can have: in each of the {len(operator.parts)} "
                f"parts the others are ruled out. The smallest part has {len(fewest.codes)} "
                f"values: {self._named(column, fewest.codes)}."
            )
            yield (
                f"Column {column!r}: who knows more about a person than the shares of the "
                "table may conclude more from the part. Chances that fall are not limited."
            )
        yield (
            f"Column {column!r} is {np.log(float(operator.amplification())):.4g}-locally "
            "differentially private within each part, not across parts."
        )

    def _sampled(self, sampling: Mapping[str, Any]) -> Iterator[str]:
        yield (
            "Groups of people with the same quasi-identifiers were sampled, perturbed and copied "
            "back to their size: records are not independent, and copies carry no information of "
            "their own. Standard errors take the copies into account."
        )
        merges = {c: (sum(len(e["values"]) for e in m), len(m))
                  for c, m in self.plan.get("merges", {}).items()}  # fmt: skip
        if merges:
            names = [f"{column} ({old} values to {new})" for column, (old, new) in merges.items()]
            yield (
                "Quasi-identifiers that say the same about the sensitive column were merged: "
                f"{list_some(names)}."
            )
        if sampling["groups_suppressed"]:
            yield (
                f"{sampling['groups_suppressed']:,} groups, {self.suppressed:,} people, are "
                "suppressed: not even one of their records could be perturbed and published within "
                "the promise."
            )


def _domain(column: str, values: tuple[Value, ...]) -> Histogram:
    """Values without their counts."""
    return Histogram(column, values, np.zeros(len(values), np.int64))


def with_words(manifest: Manifest, shown: Mapping[str, Histogram]) -> Manifest:
    """The manifest with the sentences that follow from the rest of it.

    `shown` has the counts that a bucketed release lists, by sensitive column; of other kinds the
    counts are not looked at.
    """
    facts = facts_of(manifest, shown)
    rule, merged = manifest.person, manifest.quasi_k
    names = [column.name for column in manifest.columns if column.role == "sensitive"]
    statement = [*facts.statement(), *(rule.sentences() if rule else ())]
    if manifest.joint:
        statement.append(
            f"The promise holds for what the columns {', '.join(names)} tell together."
        )
    if manifest.randomness == "key-file":
        statement.append(
            "Draws repeat: whoever has the same value, under the same key file, operator and "
            "domain, is shown alike in every release. Of all these releases together the promise "
            "holds for readers for whom a person's value is the same in all of them. A visible "
            "change proves that the value changed, and no change is evidence that it did not."
        )
    caveats = [*facts.caveats(), *_columns_apart(manifest, names)]
    if merged is not None:
        caveats.append(
            f"The quasi-identifiers {', '.join(merged.columns)} were merged into ranges and sets "
            f"until every combination was shared by at least {merged.k} people. A range tells "
            "where a value lies, not what it is."
        )
    if manifest.missing == "drop":
        caveats.append(
            "Records without a sensitive value were left out; the counts do not include them."
        )
    return msgspec.structs.replace(
        manifest,
        statement=tuple(statement),
        does_not_protect=facts.guarantee.unprotected(),
        caveats=tuple(caveats),
    )


def facts_of(manifest: Manifest, shown: Mapping[str, Histogram]) -> Facts:
    """What the manifest says that sentences depend on."""
    try:
        mechanism = parse_mechanism(manifest.mechanism)
    except SfumatoError:  # a release that another program made
        mechanism = None
    kind, plan, histograms = KINDS[manifest.kind], in_json(manifest.plan), {}
    for column in manifest.columns:
        if column.role == "sensitive":
            values = column.domain.values if isinstance(column.domain, Values) else ()
            listed = shown.get(column.name) if kind is BucketedRelease else None
            histograms[column.name] = listed or _domain(column.name, values)
    apart = manifest.suppressed - (manifest.person.suppressed if manifest.person else 0)
    guarantee = parse_guarantee(manifest.stated)
    return Facts(kind, mechanism, guarantee, plan, histograms, manifest.fitted, apart)


def _columns_apart(manifest: Manifest, names: list[str]) -> Iterator[str]:
    if len(names) < 2 or manifest.joint:
        return
    if KINDS[manifest.kind] is BucketedRelease:
        yield (
            f"The promise about each of the columns {', '.join(names)} holds for whoever sees all "
            "of them. About combinations of their values nothing is promised; a joint promise "
            "limits them too."
        )
    else:
        yield (
            f"The promise holds for each of the columns {', '.join(names)} by itself. Where they "
            "depend on one another, the published values of one tell about another, and together "
            "they may tell more than the promise about one allows."
        )
