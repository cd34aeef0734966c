"""sfumato publishes a table of people: totals stay sharp, single lines vanish.

    table   = sf.read("patients.parquet", quasi=["age", "sex", "zip"], sensitive="disease")
    release = sf.publish(table, sf.RhoPrivacy("1/13", "1/6"), to="release/")
    answer  = sf.open("release/").sql("SELECT COUNT(*) FROM release WHERE disease = 'flu'")
    verdict = sf.audit(table, "release/")

Names load on first use, so that `import sfumato` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.attacks import attack
    from sfumato.audits import Finding, Verdict, audit
    from sfumato.checks import check
    from sfumato.draws import Draws
    from sfumato.engines.publication import Publication
    from sfumato.engines.publishing import publish
    from sfumato.errors import (
        BundleError,
        DataError,
        InfeasibleGuarantee,
        QueryError,
        SfumatoError,
        UsageError,
        WeakPromiseWarning,
    )
    from sfumato.evidence.compare import compare
    from sfumato.evidence.report import write_report as report
    from sfumato.guarantees import (
        BetaLikeness,
        FineRhoPrivacy,
        FPrivacy,
        LDiversity,
        RhoPrivacy,
        SmallSum,
        parse_guarantee,
    )
    from sfumato.mechanisms import parse_mechanism
    from sfumato.outlook.advise import advise, promise_cost
    from sfumato.outlook.describe import describe
    from sfumato.outlook.survey import survey
    from sfumato.queries import Answer
    from sfumato.queries import open_release as open
    from sfumato.table import Table, read

_PLACES = {
    "Answer": "queries",
    "BetaLikeness": "guarantees",
    "BundleError": "errors",
    "DataError": "errors",
    "Draws": "draws",
    "FPrivacy": "guarantees",
    "FineRhoPrivacy": "guarantees",
    "Finding": "audits",
    "InfeasibleGuarantee": "errors",
    "LDiversity": "guarantees",
    "Publication": "engines.publication",
    "QueryError": "errors",
    "RhoPrivacy": "guarantees",
    "SfumatoError": "errors",
    "SmallSum": "guarantees",
    "Table": "table",
    "UsageError": "errors",
    "Verdict": "audits",
    "WeakPromiseWarning": "errors",
    "advise": "outlook.advise",
    "attack": "attacks",
    "audit": "audits",
    "check": "checks",
    "compare": "evidence.compare",
    "describe": "outlook.describe",
    "open": "queries",
    "parse_guarantee": "guarantees",
    "parse_mechanism": "mechanisms",
    "promise_cost": "outlook.advise",
    "publish": "engines.publishing",
    "read": "table",
    "report": "evidence.report",
    "survey": "outlook.survey",
}
_RENAMED = {"open": "open_release", "report": "write_report"}

__all__ = [
    "Answer",
    "BetaLikeness",
    "BundleError",
    "DataError",
    "Draws",
    "FPrivacy",
    "Finding",
    "FineRhoPrivacy",
    "InfeasibleGuarantee",
    "LDiversity",
    "Publication",
    "QueryError",
    "RhoPrivacy",
    "SfumatoError",
    "SmallSum",
    "Table",
    "UsageError",
    "Verdict",
    "WeakPromiseWarning",
    "__version__",
    "advise",
    "attack",
    "audit",
    "check",
    "compare",
    "describe",
    "open",
    "parse_guarantee",
    "parse_mechanism",
    "promise_cost",
    "publish",
    "read",
    "report",
    "survey",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(import_module(f"sfumato.{_PLACES[name]}"), _RENAMED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
