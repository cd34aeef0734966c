"""Does a sampled release keep reconstruction privacy, in every group, by the exact tails?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding, Result, number_text
from sfumato.columns import in_json, value_text, value_to_json
from sfumato.draws import Draws, IntArray
from sfumato.engines.choosing import TableCounts, with_counts
from sfumato.errors import SfumatoError
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.mechanisms.reconstruction.sampled import SampledPlan, published_variance
from sfumato.mechanisms.sps import SamplingPerturbingScaling

NEAR_ALARM = 1e-4  # the same for groups that are shown nearly as they are
_MOST_CELLS = 1 << 22
FALSE_ALARM = 1e-6  # the chance that an honest release fails the goodness of fit


@dataclass(frozen=True, eq=False)
class PublishedCounts:
    """What the release shows: rows by (group, value); `strangers` are in no group of the table."""

    groups: IntArray
    values: IntArray
    parts: IntArray
    counts: IntArray
    strangers: int


def check_reconstruction(case: AuditCase) -> Iterator[Finding]:
    """Everything about a release under reconstruction privacy.

    The plan follows from the table and the manifest's promise and mechanism without any draw, so
    the audit makes it again and holds the release against it.
    """
    if not isinstance(case.guarantee, ReconstructionPrivacy):
        return
    try:
        plan = plan_again(case)
    except SfumatoError as error:
        yield Finding.plain(catalogue.PLAN, False, witness=str(error))
        return
    public, stated = plan.public(), in_json(case.release.plan)
    for part, what in (("operators", "operator"), ("merges", "merges"), ("sampling", "sampling")):
        same = stated.get(part, {}) == public.get(part, {})
        other = None if same else "the manifest's differ from what the promise and the table give"
        yield Finding.plain(catalogue.PLAN_PART, same, about=what, witness=other)
        if not same:
            return
    yield from _bounds(plan)
    published = published_counts(case, plan)
    yield from _sizes(plan, published)
    yield from _copies(case, plan, published)


def check_sampled_draws(case: AuditCase) -> Iterator[Finding]:
    """Do the samples look perturbed? In all, and group by group."""
    try:
        plan = plan_again(case)
    except SfumatoError:
        return
    published = published_counts(case, plan)
    yield from _agreement(plan, published)
    yield from _near_the_truth(plan, published)
    yield from _fit(plan, published)


def plan_again(case: AuditCase) -> SampledPlan:
    """The plan that the manifest's mechanism makes for the raw table."""
    mechanism, guarantee = case.mechanism, case.guarantee
    if not isinstance(mechanism, SamplingPerturbingScaling):
        raise SfumatoError(f"'{case.release.manifest.mechanism}' does not keep '{case.guarantee}'.")
    profile = with_counts(case.profile, [mechanism], TableCounts(case.table))
    return mechanism.plan(profile, guarantee, Draws.from_seed(0))


def _bounds(plan: SampledPlan) -> Iterator[Finding]:
    """The exact tails of every published group; and who would be exposed without sampling."""
    share, people = plan.exposed()
    yield Finding.info(
        catalogue.WITHOUT_SAMPLING,
        people,
        witness=f"{share:.1%} of the groups, {people:.1%} of the people, would be exposed",
    )
    kept, chance = plan.samples > 0, float(plan.setting.chance)
    worst, private = plan.worst()
    where = int(np.argmin(np.where(kept, worst, 2.0)))
    short = int((~private).sum())
    yield Finding(
        catalogue.EXACT_TAILS,
        Result.FAILED if short else Result.OK,
        plan.histogram.column,
        float(worst[where]),
        chance,
        Direction.AT_LEAST,
        witness=f"{short:,} of {int(kept.sum()):,} groups fall short of {chance:.4g}; the worst is "
        f"{group_text(plan, where)}"
        if short
        else None,
    )


def group_text(plan: SampledPlan, group: int) -> str:
    """A group as a message names it: its quasi values and its size."""
    codes = plan.groups.codes(np.array([group]))
    names = [
        f"{quasi.column} = {value_text(quasi.values[int(codes[quasi.column][0])])}"
        for quasi in plan.quasi()
    ]
    return f"{', '.join(names) or 'the whole table'} ({int(plan.groups.sizes[group]):,} people)"


def published_counts(case: AuditCase, plan: SampledPlan) -> PublishedCounts:
    """The release's rows by group of the plan, published value and part."""
    column = plan.histogram.column
    names = [quasi.column for quasi in plan.quasi()]
    chosen = ", ".join(quoted(name) for name in (*names, column, "part"))
    connection = case.connect()
    query = f"SELECT {chosen}, count(*) AS n FROM published GROUP BY ALL"
    rows: pa.Table = connection.sql(query).to_arrow_table()
    key = np.zeros(rows.num_rows, np.int64)
    known = np.ones(rows.num_rows, np.bool_)
    for quasi in plan.quasi():
        code = _codes(rows.column(quasi.column), quasi.values)
        known &= code >= 0
        key = key * len(quasi.values) + code
    place = np.searchsorted(plan.groups.keys, key)
    place[place == len(plan.groups)] = 0
    known &= plan.groups.keys[place] == key
    counts = rows.column("n").to_numpy().astype(np.int64)
    values = _codes(rows.column(column), plan.histogram.values)
    known &= values >= 0
    parts = rows.column("part").to_numpy().astype(np.int64)
    return PublishedCounts(
        place[known], values[known], parts[known], counts[known], int(counts[~known].sum())
    )


def _codes(column: pa.ChunkedArray, values: tuple[object, ...]) -> IntArray:
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode(null_encoding="encode")
    place = {value_to_json(value): code for code, value in enumerate(values)}
    found = [place.get(value_to_json(value), -1) for value in coded.dictionary.to_pylist()]
    found.append(place.get(None, -1))
    indices = coded.indices.fill_null(len(found) - 1).to_numpy()
    return np.asarray(np.array(found, np.int64)[indices])


def _sizes(plan: SampledPlan, published: PublishedCounts) -> Iterator[Finding]:
    """Every published group has as many rows as the table has records of it, no other has any."""
    wanted = np.where(plan.samples > 0, plan.groups.sizes, 0)
    found = np.bincount(published.groups, published.counts, minlength=len(wanted)).astype(np.int64)
    wrong = np.flatnonzero(found != wanted)
    yield Finding.none(
        catalogue.GROUP_SIZES,
        len(wrong) + published.strangers,
        witness=f"{published.strangers:,} rows belong to no group of the table"
        if published.strangers
        else f"{group_text(plan, int(wrong[0]))} has {int(found[wrong[0]]):,} rows"
        if len(wrong)
        else None,
    )


def _copies(case: AuditCase, plan: SampledPlan, published: PublishedCounts) -> Iterator[Finding]:
    """Every group's counts can come from its sample, and its part tells the analyst enough.

    T copies of a value come from o sampled records when T is o·N/n rounded up or down; the o of a
    group's values add up to n.
    """
    groups, parts, counts = published.groups, published.parts, published.counts
    # one value of a group can stand under several parts in a broken release only: that is seen too
    size = plan.groups.sizes[groups]
    n = np.maximum(plan.samples[groups], 1)
    least = (counts - 1) * n // size + 1  # T − 1 < o·N/n < T + 1
    most = ((counts + 1) * n - 1) // size
    total = len(plan.groups)
    fewest = np.bincount(groups, least, minlength=total)
    largest = np.bincount(groups, most, minlength=total)
    present = np.bincount(groups, minlength=total) > 0
    wrong = present & ((fewest > plan.samples) | (largest < plan.samples))
    wrong[groups[least > most]] = True
    where = np.flatnonzero(wrong)
    yield Finding.none(
        catalogue.COPIES,
        len(where),
        witness=f"{group_text(plan, int(where[0]))} was not made from "
        f"{int(plan.samples[where[0]])} records"
        if len(where)
        else None,
    )
    scales = case.release.scales
    if scales is None:
        yield Finding.none(catalogue.SCALES, len(parts), witness="the manifest states none")
        return
    short = np.asarray(scales)[parts] * n < size
    yield Finding.none(catalogue.SCALES, int(short.sum()))


def _agreement(plan: SampledPlan, published: PublishedCounts) -> Iterator[Finding]:
    """Published values agree with the group's true shares as often as the operator lets them.

    A = Σ over draws of the drawn value's true share f in its group, T·n/N draws for T copies. With
    mean Σ n (p Σ f² + q); draws add at most Σ n Σ (p f + q) f² to the variance, the rounding of a
    sample p² and that of copies (n/N)², all terms within [−1, 1]: Bernstein's inequality. A release
    that shows its samples unperturbed has the right sizes and copies, and is caught here.
    """
    groups, m = plan.groups, plan.setting.values
    p, q = float(plan.setting.retention), float(plan.setting.background)
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
    share = groups.counts / groups.sizes[owner]
    n = plan.samples.astype(np.float64)
    rounded = (plan.samples > 0) & (plan.samples < groups.sizes)
    mean = float((n[owner] * p * share**2).sum() + n.sum() * q)
    variance = float((n[owner] * (p * share + q) * share**2).sum())
    variance += float((p**2 + (n / groups.sizes) ** 2)[rounded].sum())
    known = owner * m + groups.values
    shown = published.groups * m + published.values
    place = np.minimum(np.searchsorted(known, shown), len(known) - 1)
    true = np.where(known[place] == shown, share[place], 0.0)
    rate = n[published.groups] / groups.sizes[published.groups]
    agreed = float((published.counts * rate * true).sum())
    gap = abs(agreed - mean)
    chance = min(1.0, 2 * float(np.exp(-(gap**2) / (2 * (variance + gap / 3) + 1e-300))))
    yield Finding.limited(
        catalogue.AGREEMENT,
        chance,
        Direction.AT_LEAST,
        FALSE_ALARM,
        column=plan.histogram.column,
        witness=f"{number_text(agreed)} agree, the operator lets expect {number_text(mean)}",
    )


def _near_the_truth(plan: SampledPlan, published: PublishedCounts) -> Iterator[Finding]:
    """No group shows counts as near to its true ones as draws hardly ever come.

    Draws vary by v; were they normal around the truth, Σ (T − N)²/v would be chi-square with m − 1
    degrees of freedom, and around their own mean they come near the truth less often still. One is
    added to every distance, for counts are whole. Few draws are not normal: only groups are looked
    at in which every value is expected to be drawn five times.
    """
    from scipy import stats

    groups, m = plan.groups, plan.setting.values
    p, q = float(plan.setting.retention), float(plan.setting.background)
    some = np.flatnonzero(plan.samples * q >= 5)[: _MOST_CELLS // m]
    if not len(some):
        return
    place = np.full(len(groups), -1)
    place[some] = np.arange(len(some))
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
    true, shown = np.zeros((2, len(some), m))
    for table, group, value, count in (
        (true, owner, groups.values, groups.counts),
        (shown, published.groups, published.values, published.counts),
    ):
        chosen = place[group] >= 0
        np.add.at(table, (place[group[chosen]], value[chosen]), count[chosen])
    size = groups.sizes[some, None].astype(np.float64)
    n = plan.samples[some, None].astype(np.float64)
    variance = np.maximum(published_variance(size, n, true, p, q), 1e-9)
    near = ((np.abs(shown - true) + 1) ** 2 / variance).sum(axis=1)
    chances = stats.chi2.cdf(near, m - 1)
    least = int(np.argmin(chances))
    chance = min(1.0, len(some) * float(chances.min(initial=1.0)))
    yield Finding.limited(
        catalogue.SUBGROUPS,
        chance,
        Direction.AT_LEAST,
        NEAR_ALARM,
        column=plan.histogram.column,
        witness=f"{len(some):,} groups"
        + (f"; {group_text(plan, int(some[least]))}" if chance < NEAR_ALARM else ""),
    )


def _fit(plan: SampledPlan, published: PublishedCounts) -> Iterator[Finding]:
    """Each value's published total is as far from its mean as the draws allow (Bernstein)."""
    kept, m = plan.samples > 0, plan.setting.values
    most = float((plan.groups.sizes[kept] / plan.samples[kept]).max(initial=1.0)) + 1
    found = np.bincount(published.values, published.counts, minlength=m)
    mean, variance = plan.moments(plan.samples)
    distance = np.abs(found - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = distance**2 / 2 / (variance + most * distance / 3)
    chance = np.minimum(2 * m * np.exp(-np.nan_to_num(exponent)), 1.0)
    worst = int(np.argmin(chance))
    told = (
        f"{value_text(plan.histogram.values[worst])}: {int(found[worst]):,} published, "
        f"{mean[worst]:,.0f} expected"
    )
    yield Finding.limited(
        catalogue.FIT,
        float(chance[worst]),
        Direction.AT_LEAST,
        FALSE_ALARM,
        column=plan.histogram.column,
        witness=told if chance[worst] < FALSE_ALARM else None,
    )
