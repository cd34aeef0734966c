"""What learners make of a release comes close to what they make of the table."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import log_loss

from sfumato.errors import SfumatoError, UsageError, WeakPromiseWarning
from sfumato.learn import LinearRegression, LogisticRegression
from sfumato.queries import OpenedRelease

from .conftest import TRUE, Publish, people

TRAIN, TEST = people(6000), people(3000, seed=2)
KINDS = {
    "uniform": ("rho-privacy(0.4, 0.7)", "uniform"),
    "fine-grain": ("rho-privacy(0.4, 0.7)", "fine-grain"),
    "partitioned": ("rho-privacy(0.4, 0.7, reader=shares)", "partitioned"),
    "optimal": ("l-diversity(2)", "optimal"),
    "local": ("l-diversity(2)", "local(min=500)"),
    "splu": ("small-sum(2)", "splu"),
}
QUASI = ["age", "sex", "smoker"]


@pytest.fixture(scope="module")
def releases(published: Publish) -> dict[str, OpenedRelease]:
    return {
        name: published(TRAIN, guarantee, "ill", quasi=QUASI, mechanism=mechanism)
        for name, (guarantee, mechanism) in KINDS.items()
    }


def loss(model: object, target: str = "ill") -> float:
    chances = model.predict_proba(TEST)  # type: ignore[attr-defined]
    assert np.allclose(chances.sum(axis=1), 1)
    return float(log_loss(TEST[target].to_pylist(), chances, labels=model.classes_))  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def blind() -> float:
    """The loss of who knows the shares of the values alone."""
    codes = np.unique(TRAIN["ill"].to_pylist(), return_inverse=True)[1]
    shares = np.bincount(codes) / len(TRAIN)
    return float(log_loss(TEST["ill"].to_pylist(), np.tile(shares, (len(TEST), 1))))


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_teaches_nearly_what_the_table_does(
    releases: dict[str, OpenedRelease], blind: float, kind: str
) -> None:
    """At most 15 % of what the table teaches is lost; the worst seen is two thirds of it."""
    raw, model = (LogisticRegression(standard_errors=False) for _ in range(2))
    raw.fit(TRAIN, target="ill", features=QUASI)
    model.fit(releases[kind], target="ill")
    assert loss(model) < loss(raw) + 0.15 * (blind - loss(raw))


def test_frames_of_every_library_give_the_same_answers(
    releases: dict[str, OpenedRelease],
) -> None:
    model = LogisticRegression().fit(releases["uniform"], target="ill")
    expected = model.predict_proba(TEST)
    for frame in (TEST.to_pandas(), pl.from_arrow(TEST), TEST.to_batches()[0]):
        assert np.array_equal(model.predict_proba(frame), expected)
    shuffled = TEST.to_pandas().sample(frac=1, random_state=1)[::-1]
    assert model.score(shuffled) == pytest.approx(model.score(TEST))
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(TEST), expected)
    again = LogisticRegression().fit(releases["uniform"].path, target="ill")
    assert np.array_equal(again.predict_proba(TEST), expected)


def test_the_table_itself_has_the_coefficients_of_maximum_likelihood() -> None:
    """Held against scikit-learn's own, nearly without a ridge."""
    from sklearn.linear_model import LogisticRegression as Plain

    frame = TRAIN.to_pandas()
    design = np.column_stack([frame["age"], frame["sex"] == "M", frame["smoker"] == "yes"]).astype(
        float
    )
    theirs = Plain(C=1e9, tol=1e-10, max_iter=10_000).fit(design, frame["ill"])
    ours = LogisticRegression(C=1e9).fit(frame, target="ill", features=QUASI)
    assert ours.coef_names_ == ["age", "sex=M", "smoker=yes"]
    assert ours.coef_ == pytest.approx((theirs.coef_ - theirs.coef_[:1])[1:], abs=2e-4)
    assert (np.abs(ours.coef_ - TRUE[1:].T) < 4 * ours.coef_stderr_).all()


@pytest.mark.parametrize("kind", ["uniform", "partitioned", "optimal", "local"])
def test_publishing_widens_the_standard_errors(
    releases: dict[str, OpenedRelease], kind: str
) -> None:
    raw = LogisticRegression().fit(TRAIN, target="ill", features=QUASI)
    model = LogisticRegression().fit(releases[kind], target="ill")
    # what the histograms of small blocks tell is counted: without, they were down to 0.88 of raw
    assert (model.coef_stderr_ > 1.02 * raw.coef_stderr_).all()
    # 9 coefficients: a false alarm at 4.5 standard errors has a chance below 1e-4
    assert (np.abs(model.coef_ - TRUE[1:].T) < 4.5 * model.coef_stderr_).all()
    told = model.coefficients()
    assert [each.name for each in told[:4]] == ["(constant)", "age", "sex=M", "smoker=yes"]
    assert told[1].low < told[1].value < told[1].high


def test_features_that_leave_out_what_blocks_are_cut_by_are_warned_of(
    releases: dict[str, OpenedRelease],
) -> None:
    """Inside a block that another column cut, a value goes otherwise with the features."""
    if releases["local"].tree is None:  # type: ignore[attr-defined]
        pytest.skip("local cuts no blocks of this table")
    cut_by = releases["local"].tree.columns  # type: ignore[attr-defined]
    asked = {"target": "ill", "features": [name for name in QUASI if name != cut_by[0]]}
    with pytest.warns(WeakPromiseWarning, match=f"cut by {cut_by[0]} too"):
        LogisticRegression().fit(releases["local"], **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LogisticRegression().fit(releases["local"], target="ill")


def test_a_number_is_regressed_on_quasi_columns(published: Publish) -> None:
    table, quasi = TRAIN, ["age", "sex"]
    raw = LinearRegression().fit(table, target="cost", features=["age", "sex"])
    for guarantee, way in (("rho-privacy(0.4, 0.7)", "uniform"), ("l-diversity(2)", "optimal")):
        release = published(table, guarantee, "cost", quasi=quasi, mechanism=way)
        model = LinearRegression().fit(release, target="cost", features=["age", "sex"])
        assert (model.coef_stderr_ > raw.coef_stderr_).all()
        assert (np.abs(model.coef_ - raw.coef_) < 4.5 * model.coef_stderr_).all()
        assert model.score(table) == pytest.approx(raw.score(table), abs=0.02)


def refused() -> list[tuple[str, dict[str, object], str]]:
    return [
        ("uniform", {"target": "height"}, "no column 'height'"),
        ("uniform", {"target": "ill", "features": ["ill"]}, "its own features"),
        ("uniform", {"target": "ill", "features": []}, "no feature to learn from"),
        ("uniform", {"target": "ill", "features": ["age", "age"]}, "named twice"),
        ("uniform", {"target": "sex", "features": ["age", "ill"]}, "not shown as it is"),
    ]


@pytest.mark.parametrize(("kind", "asked", "message"), refused())
def test_what_makes_no_sense_is_refused_in_a_sentence(
    releases: dict[str, OpenedRelease], kind: str, asked: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        LogisticRegression().fit(releases[kind], **asked)  # type: ignore[arg-type]


def test_releases_that_teach_nothing_are_refused(published: Publish) -> None:
    small = TRAIN.slice(0, 400)
    ranges = published(small, "l-diversity(2)", "ill", quasi=QUASI, mechanism="heterogeneous")
    with pytest.raises(UsageError, match="ranges and sets"):
        LogisticRegression().fit(ranges, target="ill")
    fakes = published(small, "l-diversity(2)", "ill", quasi=QUASI, mechanism="optimal(fakes=1)")
    with pytest.raises(UsageError, match="nobody has"):
        LogisticRegression().fit(fakes, target="ill")


def test_bad_settings_and_frames_are_refused(releases: dict[str, OpenedRelease]) -> None:
    release = releases["uniform"]
    with pytest.raises(UsageError, match="C must be above 0"):
        LogisticRegression(C=0.0).fit(release, target="ill")
    with pytest.raises(UsageError, match=r"call fit\(…\) first"):
        LogisticRegression().predict(TEST)
    with pytest.raises(UsageError, match="a frame of pandas, Polars or pyarrow"):
        LogisticRegression().fit(np.zeros((3, 2)), target="ill")
    with pytest.raises(UsageError, match="no numbers"):
        LinearRegression().fit(release, target="ill")
    model = LogisticRegression(standard_errors=False).fit(release, target="ill")
    with pytest.raises(UsageError, match="no column 'smoker'"):
        model.predict(TEST.select(["age", "sex"]))
    with pytest.raises(UsageError, match="not for a release"):
        model.predict(release)
    texts = pd.DataFrame({"age": ["old"], "sex": ["F"], "smoker": ["no"]})
    with pytest.raises(UsageError, match="holds numbers"):
        model.predict(texts)
    with pytest.raises(SfumatoError):
        LogisticRegression().fit("no such folder", target="ill")


def test_binned_and_merged_columns_take_raw_values(published: Publish) -> None:
    release = published(
        TRAIN, "rho-privacy(0.4, 0.7)", "ill", quasi=QUASI, bins={"age": [20, 40, 60, 80]}
    )
    model = LogisticRegression().fit(release, target="ill")
    young, old = (TEST.slice(0, 1).set_column(0, "age", [[age]]) for age in (25, 75))
    assert not np.allclose(model.predict_proba(young), model.predict_proba(old))
    assert np.allclose(
        model.predict_proba(young),
        model.predict_proba(TEST.slice(0, 1).set_column(0, "age", [["[20, 40)"]])),
    )
