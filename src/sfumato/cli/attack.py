"""attack: play an adversary against a table or a release."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.app import app
from sfumato.cli.commands import (
    BinEdges,
    Categorical,
    Domain,
    Drop,
    Json,
    MissingValues,
    Numeric,
    Origin,
    Quasi,
    Sensitive,
    declared_table,
)
from sfumato.cli.show import show_json
from sfumato.errors import UsageError

ATTACKS = ("ratio",)


@app.command()
def attack(
    table: Origin,
    attack: Annotated[str, typer.Option(help="Which adversary: ratio.")] = "ratio",
    epsilon: Annotated[float, typer.Option(help="Of the two differentially private answers.")] = 1,
    confidence: Annotated[float, typer.Option(help="From which confidence on it counts.")] = 0.8,
    quasi: Quasi = "",
    sensitive: Sensitive = "",
    drop: Drop = "",
    numeric: Numeric = "",
    categorical: Categorical = "",
    domain: Domain = None,
    bins: BinEdges = None,
    missing: MissingValues = "refuse",
    as_json: Json = False,
) -> None:
    """Show whom two differentially private answers disclose (ratio)."""
    from sfumato.attacks.ratio import ratio_attack

    if attack not in ATTACKS:
        raise UsageError(f"There is no attack {attack!r}. Choose one of: {', '.join(ATTACKS)}.")
    declared = declared_table(
        table, quasi, sensitive, None, drop, numeric, categorical, domain, bins, missing
    )
    outcome = ratio_attack(declared, epsilon, confidence=confidence)
    if as_json:
        show_json(outcome.to_json())
    else:
        print(outcome)
