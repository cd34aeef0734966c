"""Does a sampled release keep reconstruction privacy, in every group, by the exact tails?

The plan follows from the table and the manifest's promise and mechanism without any draw, so the
audit makes it again and holds the release against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns
from sfumato.audits.chances import Tests, sum_exponents
from sfumato.audits.findings import CheckResult, Finding
from sfumato.columns import in_json, quoted, value_text, value_to_json
from sfumato.draws import IntArray
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.mechanisms.reconstruction.sampled import SampledPlan
from sfumato.public import values_of


@dataclass(frozen=True, eq=False)
class Sampled:
    """The plan that the manifest's mechanism makes for the raw table, and what the release shows:
    rows by (group, value, part); of those `strangers` are in no group of the table."""

    plan: SampledPlan
    rows: dict[str, IntArray]
    strangers: int

    @classmethod
    def of(cls, case: AuditCase) -> Sampled | None:
        """None where the mechanism makes no such plan."""
        plan = case.planned(SampledPlan)
        if plan is None:
            return None
        column = plan.histogram.column
        domains = {quasi.column: quasi.values for quasi in plan.quasi()}
        chosen = ", ".join(quoted(name) for name in (*domains, column, "part"))
        shown = case.columns(f"SELECT {chosen}, count(*)::BIGINT AS n FROM published GROUP BY ALL")
        key, grouped = np.zeros(shown.num_rows, np.int64), np.ones(shown.num_rows, np.bool_)
        codes = {}
        for name, values in {**domains, column: plan.histogram.values}.items():
            places = {value_to_json(value): code for code, value in enumerate(values)}
            code = [places.get(value_to_json(v), -1) for v in shown.column(name).to_pylist()]
            codes[name] = np.array(code, np.int64)
            grouped &= codes[name] >= 0
        for name, values in domains.items():
            key = key * len(values) + codes[name]
        group = np.minimum(np.searchsorted(plan.groups.keys, key), len(plan.groups) - 1)
        grouped &= plan.groups.keys[group] == key
        count = shown.column("n").to_numpy()
        strangers = int(count[~grouped].sum())
        part = shown.column("part").to_numpy().astype(np.int64)
        cells = {"group": group, "value": codes[column], "part": part, "count": count}
        return cls(plan, {name: array[grouped] for name, array in cells.items()}, strangers)

    def group_text(self, group: int) -> str:
        """A group as a message names it: its quasi values and its size."""
        codes = self.plan.groups.codes(np.array([group]))
        names = [
            f"{quasi.column} = {value_text(quasi.values[int(codes[quasi.column][0])])}"
            for quasi in self.plan.quasi()
        ]
        size = int(self.plan.groups.sizes[group])
        return f"{', '.join(names) or 'the whole table'} ({size:,} people)"


@concerns(ReconstructionPrivacy)
def check_sampled(case: AuditCase) -> Iterator[Finding]:
    """Everything exact about a release under reconstruction privacy."""
    sampled = Sampled.of(case)
    if sampled is None:
        wrong = f"'{case.release.manifest.mechanism}' makes no plan for '{case.guarantee}'"
        yield Finding.plain(catalogue.PLAN, wrong)
        return
    public, stated = values_of(sampled.plan.public()), in_json(case.release.plan)
    for part, what in (("operators", "operator"), ("merges", "merges"), ("sampling", "sampling")):
        same = stated.get(part, {}) == public.get(part, {})
        other = None if same else "the manifest's differ from what the promise and the table give"
        yield Finding.plain(catalogue.PLAN_PART, other, about=what)
        if not same:
            return
    yield _tails(sampled)
    yield from _copies(sampled)


def _tails(sampled: Sampled) -> Finding:
    """The exact tails of every published group."""
    plan = sampled.plan
    kept, chance = plan.samples > 0, float(plan.setting.chance)
    worst, private = plan.worst()
    where, short = int(np.argmin(np.where(kept, worst, 2.0))), int((~private).sum())
    witness = f"{short:,} of {int(kept.sum()):,} groups fall short; the worst is "
    return Finding(
        catalogue.EXACT_TAILS,
        CheckResult.FAILED if short else CheckResult.OK,
        plan.histogram.column,
        float(worst[where]),
        chance,
        witness=witness + sampled.group_text(where) if short else None,
    )


def _copies(sampled: Sampled) -> Iterator[Finding]:
    """Published groups have as many rows as the table, in numbers that copies of their sample give.

    T copies of a value come from o sampled records when T is o·N/n rounded up or down; the o of a
    group's values add up to n. A group is in the part of its scale.
    """
    plan, rows = sampled.plan, sampled.rows
    groups, counts = rows["group"], rows["count"]
    total = len(plan.groups)
    wanted = np.where(plan.samples > 0, plan.groups.sizes, 0)
    off = np.flatnonzero(np.bincount(groups, counts, minlength=total) != wanted)
    found = sampled.group_text(int(off[0])) if len(off) else ""
    if sampled.strangers:
        found = f"{sampled.strangers:,} rows belong to no group of the table"
    yield Finding.limited(catalogue.GROUP_SIZES, len(off) + sampled.strangers, wrong=found)
    # one value of a group can stand under several parts in a broken release only: that is seen too
    size = plan.groups.sizes[groups]
    n = np.maximum(plan.samples[groups], 1)
    least = (counts - 1) * n // size + 1  # T − 1 < o·N/n < T + 1
    most = ((counts + 1) * n - 1) // size
    fewest = np.bincount(groups, least, minlength=total)
    largest = np.bincount(groups, most, minlength=total)
    wrong = (fewest > plan.samples) | (largest < plan.samples)
    wrong &= np.bincount(groups, minlength=total) > 0
    wrong[groups[least > most]] = True
    where = np.flatnonzero(wrong)
    made = ""
    if len(where):
        made = f"{sampled.group_text(int(where[0]))} was not made from "
        made += f"{int(plan.samples[where[0]])} records"
    yield Finding.limited(catalogue.COPIES, len(where), wrong=made)
    off = rows["part"] != plan.parts(groups)
    yield Finding.limited(catalogue.SCALES, int(off.sum()))


def sample_tests(case: AuditCase) -> Iterator[Tests]:
    """How often samples agree with the truth, and how often each value is published.

    Agreement is Σ over draws of the drawn value's true share f in its group, T·n/N draws for T
    copies. With mean Σ n (p Σ f² + q); draws add at most Σ n Σ (p f + q) f² to the variance, the
    rounding of a sample p² and that of copies (n/N)², all terms within [−1, 1].
    """
    sampled = Sampled.of(case)
    if sampled is None:
        return
    plan, rows = sampled.plan, sampled.rows
    groups, m = plan.groups, plan.setting.values
    p, q = float(plan.setting.retention), float(plan.setting.background)
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
    share = groups.counts / groups.sizes[owner]
    n = plan.samples.astype(np.float64)
    rounded = (plan.samples > 0) & (plan.samples < groups.sizes)
    mean = float((n[owner] * p * share**2).sum() + n.sum() * q)
    variance = float((n[owner] * (p * share + q) * share**2).sum())
    variance += float((p**2 + (n / groups.sizes) ** 2)[rounded].sum())
    pairs = owner * m + groups.values
    shown = rows["group"] * m + rows["value"]
    position = np.minimum(np.searchsorted(pairs, shown), len(pairs) - 1)
    true = np.where(pairs[position] == shown, share[position], 0.0)
    rate = n[rows["group"]] / groups.sizes[rows["group"]]
    agreed = float((rows["count"] * rate * true).sum())
    witness = f"{agreed:,.0f} sampled records agree with the truth, {mean:,.0f} expected"
    yield Tests(sum_exponents(np.array([abs(agreed - mean)]), variance, 1), lambda _: witness)
    kept = plan.samples > 0
    most = float((groups.sizes[kept] / plan.samples[kept]).max(initial=1.0)) + 1
    published = np.bincount(rows["value"], rows["count"], minlength=m)
    means, variances = plan.moments(plan.samples)
    values = [value_text(value) for value in plan.histogram.values]
    yield Tests(
        sum_exponents(np.abs(published - means), variances, most),
        lambda k: f"{values[k]}: {published[k]:,.0f} published, {means[k]:,.0f} expected",
    )
