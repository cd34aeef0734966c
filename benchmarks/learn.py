"""Models from a release beside models from the table, and how often intervals hold.

    .venv/bin/python -m benchmarks.learn [income] [education] [level] [coverage] [--publications N]
        [--rows N] [--by uniform partitioned optimal local]

`income`: ADULT (train 32,561), income sensitive under rho-privacy(0.3, 0.6), predicted for the test
file. `education`: education sensitive under l-diversity(3), the strongest l-diversity that it
allows (HS-grad has 32 %). `level`: education in five levels, a quasi column, predicted from quasi
columns and the sensitive occupation under l-diversity(5). Each learner on the raw table, on the
release (with either correction for `income`), and scikit-learn's own counterpart on the values as
published (of buckets: the listed values dealt to their records). `coverage`: slopes of a logistic
and a linear model of generated people with a known association; every publication draws new people.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.metrics import log_loss
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import sfumato as sf
from benchmarks.measure import print_table
from sfumato.datasets import read_adult
from sfumato.learn import (
    Boosting,
    DecisionTree,
    LinearRegression,
    LogisticRegression,
    NaiveBayes,
)

CORRECTIONS = ("forward", "backward")
DATA = Path(os.environ.get("SFUMATO_DATA", "../shared/data"))
UNUSED = ["fnlwgt", "education_num"]
LEARNERS: dict[str, Callable[[], Any]] = {
    "NaiveBayes": NaiveBayes,
    "LogisticRegression": lambda: LogisticRegression(standard_errors=False),
    "DecisionTree": DecisionTree,
    "Boosting": Boosting,
}
LEVELS = {
    "HS-grad": "2 high school",
    **dict.fromkeys(["Some-college", "Assoc-voc", "Assoc-acdm"], "3 some college"),
    "Bachelors": "4 bachelor",
    **dict.fromkeys(["Masters", "Prof-school", "Doctorate"], "5 beyond"),
}


def adult(name: str) -> pa.Table:
    return read_adult(DATA / name).drop_columns(UNUSED)


def with_level(table: pa.Table) -> pa.Table:
    levels = [LEVELS.get(each, "1 below high school") for each in table["education"].to_pylist()]
    return table.drop_columns(["education"]).append_column("level", pa.array(levels))


def counterpart(name: str, frame: pd.DataFrame) -> Any:
    """scikit-learn's learner of that kind, as a careful user would set it up."""
    numbers = [each for each in frame if pd.api.types.is_numeric_dtype(frame[each])]
    texts = [each for each in frame if each not in numbers]
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    if name == "LogisticRegression":
        encoded = make_column_transformer(
            (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), texts)
        )
        return make_pipeline(encoded, PlainLogistic(max_iter=2000))
    if name == "NaiveBayes":
        bins = KBinsDiscretizer(20, encode="ordinal", strategy="quantile")
        # unseen texts count as the first
        coded = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
        filled = make_pipeline(coded, FunctionTransformer(np.nan_to_num))
        encoded = make_column_transformer((bins, numbers), (filled, texts))
        return make_pipeline(encoded, CategoricalNB(min_categories=120))
    encoded = make_column_transformer(("passthrough", numbers), (OrdinalEncoder(**unknown), texts))
    if name == "DecisionTree":
        return make_pipeline(encoded, DecisionTreeClassifier(random_state=0))
    return make_pipeline(encoded, HistGradientBoostingClassifier(random_state=0))


def as_published(place: Path, sensitive: str) -> pd.DataFrame:
    """The records with the values that they show; of buckets, the listed ones dealt to them."""
    records = pq.read_table(place / "records.parquet").to_pandas()
    if "bucket" not in records:
        return records
    listed = pq.read_table(place / "sensitive.parquet").to_pandas()
    listed = listed.loc[listed.index.repeat(listed["count"])]
    listed = listed.sample(frac=1, random_state=0).sort_values("bucket", kind="stable")
    records = records.sort_values("bucket", kind="stable").reset_index(drop=True)
    records[sensitive] = listed[sensitive].astype(object).to_numpy()
    return records.drop(columns="bucket")


def judged(model: Any, test: pd.DataFrame, target: str, classes: Any) -> tuple[float, float]:
    chances, labels = model.predict_proba(test), [str(each) for each in classes]
    truth = test[target].astype(str)
    right = np.array(labels)[chances.argmax(axis=1)] == truth.to_numpy()
    return float(right.mean()), float(log_loss(truth, chances, labels=labels))


def compared(
    title: str,
    train: pa.Table,
    test: pa.Table,
    guarantee: str,
    sensitive: str,
    target: str,
    corrections: Sequence[str] = ("forward",),
) -> None:
    """Each learner on the table, on the release, and naively on what is published."""
    quasi = [name for name in train.column_names if name != sensitive]
    frame = test.to_pandas()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "release"
        sf.publish(train, guarantee, to=place, quasi=quasi, sensitive=sensitive, missing="value")
        release, shown = sf.open(place), as_published(place, sensitive)
        for each in shown.columns.difference([target]):
            if not pd.api.types.is_numeric_dtype(shown[each]):
                shown[each] = shown[each].astype(object).fillna("(missing)").astype(str)
                frame[each] = frame[each].astype(object).fillna("(missing)").astype(str)
        plain = frame.copy()
        lines = []
        for name, made in LEARNERS.items():
            raw = made().fit(train, target=target)
            found = judged(raw, test.to_pandas(), target, raw.classes_)
            lines.append((name, "raw table", *_figures(found), "", ""))
            started = time.process_time()
            for correction in corrections:
                model = made().set_params(correction=correction).fit(release, target=target)
                spent = time.process_time() - started
                own = judged(model, test.to_pandas(), target, model.classes_)
                lost = f"{100 * (found[0] - own[0]):+.1f}", f"{100 * (own[1] - found[1]):+.1f}"
                lines.append((name, f"release, {correction}", *_figures(own), *lost))
                print(f"{lines[-1]} in {spent:.1f} CPU s", flush=True)
                started = time.process_time()
            features = shown.drop(columns=target)
            naive = counterpart(name, features).fit(features, shown[target].astype(str))
            own = judged(naive, plain, target, naive.classes_)
            lost = f"{100 * (found[0] - own[0]):+.1f}", f"{100 * (own[1] - found[1]):+.1f}"
            lines.append((name, "scikit-learn, as published", *_figures(own), *lost))
    headings = ("learner", "from", "accuracy", "log loss", "points lost", "loss × 100 gained")
    print_table(title, headings, lines)


def _figures(found: tuple[float, float]) -> tuple[str, str]:
    return f"{found[0]:.1%}", f"{found[1]:.3f}"


# log odds of grades 2, 3 and 4 against 1: constant, age − 50, male, smoker
TRUE = np.array([[0.3, -0.2, 0.0], [0.03, -0.02, 0.01], [-0.8, 0.6, 0.2], [0.4, 0.9, -0.6]])
PUBLISHED = {
    "uniform": ("rho-privacy(0.4, 0.7)", "uniform"),
    "partitioned": ("rho-privacy(0.4, 0.7, reader=shares)", "partitioned"),
    "optimal": ("l-diversity(2)", "optimal"),
    "local": ("l-diversity(2)", "local(min=500)"),
}
QUASI = ["age", "sex", "smoker"]


def generated(rows: int, seed: int) -> pa.Table:
    """A census of grades that hang together with age, sex and smoking, and of pay with grades."""
    draw = np.random.default_rng(seed)
    age = draw.integers(20, 80, rows)
    male, smoker = draw.random(rows) < 0.4, draw.random(rows) < 0.3
    scores = np.column_stack([np.ones(rows), age - 50, male, smoker]) @ TRUE
    chances = np.exp(np.column_stack([np.zeros(rows), scores]))
    chances /= chances.sum(axis=1, keepdims=True)
    grade = 1 + (chances.cumsum(axis=1) < draw.random(rows)[:, None]).sum(axis=1)
    pay = np.round(20 + 2.0 * grade + 0.1 * age + draw.normal(0, 3, rows), 1)
    return pa.table(
        {
            "age": age,
            "sex": np.where(male, "M", "F"),
            "smoker": np.where(smoker, "yes", "no"),
            "pay": pay,
            "grade": grade,
        }
    )


def coverage(publications: int, rows: int, kinds: Sequence[str]) -> None:
    """How many true slopes lie inside 95 % intervals, and the mean and spread of their errors."""
    everybody = LinearRegression().fit(generated(400_000, 0), target="grade", features=QUASI)
    lines = []
    for name in kinds:
        guarantee, mechanism = PUBLISHED[name]
        errors: dict[str, list[Any]] = {}
        started = time.process_time()
        for seed in range(1, publications + 1):
            folder = Path(tempfile.mkdtemp())
            people = generated(rows, seed)
            quasi = [*QUASI, "pay"]
            sf.publish(
                people,
                guarantee,
                to=folder / "release",
                quasi=quasi,
                sensitive="grade",
                mechanism=mechanism,
            )
            release = sf.open(folder / "release")
            asked = {"target": "grade", "features": QUASI}
            for correction in CORRECTIONS:
                model = LogisticRegression(C=100, correction=correction).fit(release, **asked)
                found = (model.coef_ - TRUE[1:].T) / model.coef_stderr_
                errors.setdefault(f"logistic, {correction}", []).append(found.ravel())
            line = LinearRegression().fit(release, **asked)
            found = (line.coef_ - everybody.coef_) / line.coef_stderr_
            errors.setdefault("linear, sensitive target", []).append(found)
            back = LinearRegression().fit(release, target="pay", features=["age", "grade"])
            found = (back.coef_ - np.array([0.1, 2.0])) / back.coef_stderr_
            errors.setdefault("linear, sensitive regressor", []).append(found)
            shutil.rmtree(folder)
        print(f"{name}: {time.process_time() - started:.0f} CPU s", flush=True)
        for label, each in errors.items():
            table = np.array(each)
            inside = np.abs(table) < 1.96
            lines.append(
                (
                    name,
                    label,
                    table.size,
                    f"{inside.mean():.1%}",
                    f"{inside.mean(axis=0).min():.0%}",
                    f"{table.mean():+.2f}",
                    f"{table.std():.2f}",
                )
            )
    headings = ("by", "slopes", "number", "held", "least of one slope", "mean error", "spread")
    print_table(f"95 % intervals, {publications} publications of {rows:,}", headings, lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["income", "education", "level", "coverage"])
    parser.add_argument("--publications", type=int, default=100)
    parser.add_argument("--by", nargs="*", default=list(PUBLISHED))
    parser.add_argument("--rows", type=int, default=2000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if "coverage" in given.parts:
        coverage(given.publications, given.rows, given.by)
    if "income" in given.parts:
        title = "ADULT, income under rho-privacy(0.3, 0.6)"
        train, test = adult("adult.data"), adult("adult.test")
        compared(title, train, test, "rho-privacy(0.3, 0.6)", "income", "income", CORRECTIONS)
    if "education" in given.parts:
        title = "ADULT, education under l-diversity(3)"
        train, test = adult("adult.data"), adult("adult.test")
        compared(title, train, test, "l-diversity(3)", "education", "education")
    if "level" in given.parts:
        title = "ADULT, level of education from quasi columns and occupation under l-diversity(5)"
        train, test = with_level(adult("adult.data")), with_level(adult("adult.test"))
        compared(title, train, test, "l-diversity(5)", "occupation", "level")


if __name__ == "__main__":
    main()
