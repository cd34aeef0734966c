"""What a release is, told from its folder alone."""

from __future__ import annotations

from sfumato.columns import Range, Values, list_some, value_text
from sfumato.engines.exposure import exposure_of
from sfumato.outlook.description import Description
from sfumato.queries.estimators import estimators_of
from sfumato.release import Release
from sfumato.results import ResultTable

_SHOWN = 8  # values of a column


def describe_release(release: Release) -> Description:
    """Its columns, its promise and what to read beside it, as the manifest states them."""
    manifest = release.manifest
    columns = ResultTable(
        "Columns",
        f"{release.path.name}, {manifest.rows:,} rows of the kind {manifest.kind}",
        ("column", "role", "type", "kind", "domain"),
        [
            (column.name, column.role, column.type, column.kind, domain_text(column.domain, _SHOWN))
            for column in manifest.columns
        ],
    )
    facts = ResultTable(
        "Release",
        "what it promises, and how it was made",
        ("", "is"),
        [
            ("guarantee", manifest.guarantee),
            ("mechanism", manifest.mechanism),
            ("records", f"{manifest.rows:,} published, {manifest.suppressed:,} suppressed"),
            ("randomness", manifest.randomness),
        ],
    )
    exposed = ResultTable(
        "Exposure",
        "what it shows of people, told from the release alone",
        ("",),
        [(line,) for line in str(exposure_of(release)).splitlines()],
    )
    tables = [columns, facts, exposed]
    estimators = estimators_of(release)
    if estimators:
        tables.append(
            ResultTable(
                "Estimators",
                "ways to ask it, with --estimator NAME",
                ("estimator", "answers", "use it"),
                estimators,
            )
        )
    notes = [
        *manifest.statement,
        *manifest.caveats,
        "Does not protect against: " + "; ".join(manifest.does_not_protect) + ".",
    ]
    return Description(manifest.rows, tables, notes)


def domain_text(domain: Values | Range | None, most: int = 0) -> str:
    """A domain in a few words; `most` of its values by name.

    >>> domain_text(Values(("F", "M")), 8), domain_text(Range(16, 93)), domain_text(None)
    ("'F', 'M'", '16 … 93', 'more than 10,000 values')
    """
    if domain is None:
        return "more than 10,000 values"
    if isinstance(domain, Range):
        return f"{domain.low} … {domain.high}"
    if most:
        return list_some([value_text(value) for value in domain.values], most=most)
    return f"{len(domain):,} values"
