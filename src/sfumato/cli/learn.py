"""learn: fit a model through a release, and try it on a test file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.app import app
from sfumato.cli.options import Folder, Json
from sfumato.cli.show import show_json
from sfumato.errors import DataError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

# by the name on the command line: the learner's own
MODELS = {
    "logistic": "LogisticRegression",
    "naive-bayes": "NaiveBayes",
    "tree": "DecisionTree",
    "boosting": "Boosting",
    "linear": "LinearRegression",
}


@app.command()
def learn(
    release: Folder,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    model: Annotated[str, typer.Option(help=f"{', '.join(MODELS)}.")] = "logistic",
    features: Annotated[str, typer.Option(help="Columns to predict from; all by default.")] = "",
    correction: Annotated[str | None, typer.Option(help="forward (default) or backward.")] = None,
    test: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file with true values, to score on.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    as_json: Json = False,
) -> None:
    """Fit a model through a release: its coefficients with error bars, its score on a test file."""
    if model not in MODELS:
        raise UsageError(f"There is no model {model!r}. Models there are: {', '.join(MODELS)}.")
    from sfumato import learn as room

    learner = getattr(room, MODELS[model])()
    if correction is not None:
        if "correction" not in learner.get_params():
            raise UsageError(f"The model {model!r} has one correction only: leave it out.")
        learner.set_params(correction=correction)
    chosen = [name.strip() for name in features.split(",")] if features else None
    learner.fit(release, target=target, features=chosen)
    told: dict[str, Any] = {
        "model": model,
        "target": target,
        "features": [str(name) for name in learner.feature_names_in_],
    }
    if hasattr(learner, "coefficients"):
        told["coefficients"] = [each.to_json() for each in learner.coefficients(confidence)]
    if test is not None:
        told["test"] = str(test)
        told["score"] = learner.score(_read(test))
    if as_json:
        show_json(told)
    else:
        _show(told)


def _read(path: Path) -> pa.Table:
    """A test file with true values; nothing of it reaches the model."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r} to score on.")
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        return pyarrow.csv.read_csv(path)
    except pa.ArrowException:
        raise DataError(
            f"{str(path)!r} is no Parquet or CSV file that can be read: one line of column names, "
            "then the values."
        ) from None


def _show(told: dict[str, Any]) -> None:
    print(f"{told['model']}: {told['target']} from {', '.join(told['features'])}")
    last = object()
    for each in told.get("coefficients", []):
        if each["of"] != last:
            last = each["of"]
            if last is not None:
                print(f"  log odds of {last!r} against the first class")
        print(
            f"  {each['name']:<40} {each['value']:>10.4g} ± {each['stderr']:<9.3g}"
            f" ({each['low']:.4g} … {each['high']:.4g})"
        )
    if "score" in told:
        what = "R²" if told["model"] == "linear" else "predicted right"
        print(f"{what} on {told['test']}: {told['score']:.4f}")
