"""`--estimator model`: fitted once, kept outside the release, sharper, and honest about itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.draws import Draws
from sfumato.errors import WeakPromiseWarning
from sfumato.queries import modelled
from sfumato.queries.bucket_table import bucket_table_of
from sfumato.queries.bucketed import BucketedSource
from sfumato.queries.estimators import WORDS, estimators_of
from sfumato.queries.evaluate import SOURCES
from sfumato.queries.model_sample import dealt_cells, kept_records
from sfumato.queries.model_store import kept_model, place_of
from sfumato.queries.quasi_codes import codes_of_columns
from sfumato.queries.session import session_of
from sfumato.queries.sources import Request

QUASI = ["age", "region"]
COUNT = "SELECT ill, COUNT(*) AS n FROM release WHERE age < 40 GROUP BY ill"


def people(rows: int, seed: int) -> pa.Table:
    """Six illnesses whose chances depend on age and region."""
    draw = np.random.default_rng(seed)
    age, region = draw.integers(20, 80, rows), draw.integers(0, 3, rows)
    scores = np.outer((age - 50) / 25, np.linspace(-1, 1, 6)) + 0.8 * np.eye(6)[2 * region]
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    ill = (draw.random(rows)[:, None] > np.cumsum(chances, axis=1)).sum(axis=1)
    return pa.table(
        {
            "age": age,
            "region": np.array(["north", "south", "west"])[region],
            "ill": [f"v{code}" for code in ill],
        }
    )


def published(folder, table, promise, mechanism, *, quasi=QUASI, sensitive="ill"):
    """A release of the table at `folder / "r"`, opened; always drawn alike."""
    place = folder / "r"
    roles = {"quasi": quasi, "sensitive": sensitive}
    sf.publish(table, promise, to=place, mechanism=mechanism, seed=7, **roles)
    return sf.open(place)


MADE = {
    "buckets": ("l-diversity(3)", "optimal"),
    "local": ("l-diversity(3)", "local"),
    "uniform": ("rho-privacy(0.3, 0.6)", "uniform"),
    "fine-grain": ("rho-privacy(0.3, 0.6)", "fine-grain"),
    "partitioned": ("rho-privacy(0.3, 0.6)", "partitioned"),
    "splu": ("small-sum(3)", "splu"),
}


@pytest.fixture(scope="module", params=MADE)
def release(request, tmp_path_factory):
    guarantee, mechanism = MADE[request.param]
    return published(tmp_path_factory.mktemp("model"), people(3_000, 5), guarantee, mechanism)


def test_every_kind_answers_with_a_model(release):
    found = release.sql(COUNT, estimator="model")
    assert found.estimator == "model"
    rows = found.rows()
    true = people(3_000, 5).to_pandas().query("age < 40")["ill"].value_counts()
    assert len(rows) == 6
    for row in rows:
        assert 0 <= row["n_low"] <= row["n"] <= row["n_high"]
        assert abs(row["n"] - true[row["ill"]]) < 6 * row["n_stderr"]


def test_two_ways_of_asking_agree(release):
    one = release.sql(
        "SELECT SUM(age) AS s, AVG(age) AS a FROM release WHERE ill = 'v2' AND age < 50",
        estimator="model",
    ).rows()[0]
    other = release.sql(
        "SELECT SUM(CASE WHEN ill = 'v2' THEN age ELSE 0 END) AS s FROM release WHERE age < 50",
        estimator="model",
    ).rows()[0]
    assert other["s"] == pytest.approx(one["s"])
    if "splu" not in str(release.manifest.mechanism):  # of decoys, counts have a law of their own
        assert other["s_stderr"] == pytest.approx(one["s_stderr"])
    assert 20 < one["a"] < 50


def test_it_is_kept_outside_the_release_and_used_again(release, monkeypatch):
    before = sorted(release.path.iterdir())
    first = release.sql(COUNT, estimator="model").rows()
    place = place_of(release, "ill")
    assert sorted(release.path.iterdir()) == before
    assert place.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(modelled, "fit_model", None)
    again = sf.open(release.path).sql(COUNT, estimator="model").rows()
    for one, other in zip(first, again, strict=True):
        assert other["n"] == pytest.approx(one["n"], rel=1e-5)
        assert other["n_stderr"] == pytest.approx(one["n_stderr"], rel=1e-4)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    release = published(folder, people(1_000, 6), "l-diversity(3)", "optimal")
    release.sql(COUNT, estimator="model")
    return release, place_of(release, "ill")


def damaged(place, how):
    with np.load(place) as arrays:
        found = dict(arrays)
    if how == "shape":
        found["variances"] = found["variances"][:-1]
    elif how == "missing":
        del found["start1"]
    elif how == "not a number":
        found["table0.0"][0, 0] = np.nan
    elif how == "pairs":
        found["pairs"] = np.array([[0, 9]])
    elif how == "pickle":
        found["bias"] = np.array([{}], object)
    np.savez(place, **found)


@pytest.mark.parametrize("how", ["shape", "missing", "not a number", "pairs", "pickle"])
def test_what_does_not_fit_is_fitted_anew(kept, how):
    release, place = kept
    whole = place.read_bytes()
    damaged(place, how)
    assert kept_model(place, 2, 6, 0) is None
    expected = release.sql(COUNT, estimator="model").rows()
    again = sf.open(release.path).sql(COUNT, estimator="model").rows()
    assert [row["n"] for row in again] == pytest.approx([row["n"] for row in expected], rel=1e-5)
    assert kept_model(place, 2, 6, 0) is not None
    place.write_bytes(whole)


def test_what_others_could_have_written_is_not_read(kept):
    _, place = kept
    place.chmod(0o666)
    assert kept_model(place, 2, 6, 0) is None
    place.chmod(0o600)
    assert kept_model(place, 2, 6, 0) is not None
    place.write_bytes(b"no model")
    assert kept_model(place, 2, 6, 0) is None


def test_a_place_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    published(tmp_path, people(400, 8), "l-diversity(3)", "optimal")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "file" / "below"))
    told = []
    release = sf.open(tmp_path / "r")
    release.sql(COUNT, estimator="model", progress=lambda *each: told.append(each))
    assert told[-1] == ("fitting the model", 2, 2)


@pytest.fixture(scope="module")
def in_blocks(tmp_path_factory):
    return published(tmp_path_factory.mktemp("local"), people(3_000, 5), *MADE["local"])


def test_local_buckets_deal_out_what_they_list(in_blocks):
    """So blocks, and the whole table, are exact with the model as they are without."""
    source = modelled.ModelledSource(
        BucketedSource(in_blocks, session_of(in_blocks)), Request(lambda *told: None)
    )
    coded, model = source._model("ill")
    listed = bucket_table_of(in_blocks, ["ill"])
    cells = dealt_cells(in_blocks, listed, coded, model, Draws.from_seed(0))
    kept = kept_records(in_blocks, ["bucket"], lambda read, start: np.ones(len(read), bool))
    codes = codes_of_columns([kept[name] for name in QUASI], coded)
    bucket = kept["bucket"].to_numpy()
    chances = cells.chances[cells.numbers.of([*codes, bucket])].toarray()
    assert chances.sum(axis=1) == pytest.approx(np.ones(3_000))
    found = np.zeros(listed.shares.shape)
    np.add.at(found, bucket, chances)
    held = listed.shares.toarray() * np.bincount(bucket)[:, None]
    assert found == pytest.approx(held, abs=1e-6)
    # rules tell: people are not dealt out alike
    assert np.abs(chances - listed.shares.toarray()[bucket]).mean() > 0.02


def test_local_buckets_are_sharper_with_a_model_and_as_honest(in_blocks):
    """120 counts of one release: 0.37 × the squared error of the default, and its intervals."""
    table = people(3_000, 5).to_pandas()
    errors, moved = [], []
    for low in range(20, 80, 3):
        sql = (
            f"SELECT ill, COUNT(*) AS n FROM release WHERE age BETWEEN {low} AND {low + 9} "
            "AND region <> 'west' GROUP BY ill"
        )
        inside = table[(table.age >= low) & (table.age <= low + 9) & (table.region != "west")]
        true = inside["ill"].value_counts()
        plain, model = (in_blocks.sql(sql, estimator=name).rows() for name in (None, "model"))
        for one, other in zip(plain, model, strict=True):
            errors.append([each["n"] - true.get(each["ill"], 0) for each in (one, other)])
            assert other["n_low"] == pytest.approx(min(one["n_low"], other["n"]))
            assert other["n_high"] == pytest.approx(max(one["n_high"], other["n"]))
            moved.append(other["n"] != one["n"])
    default, leaning = np.square(errors).mean(axis=0)
    assert np.mean(moved) > 0.9
    assert leaning < 0.7 * default


def test_too_many_pairs_of_local_buckets_fall_back(in_blocks, monkeypatch):
    monkeypatch.setattr(modelled, "MOST_PAIRS", 1_000)
    with pytest.warns(WeakPromiseWarning, match="to 3,000 people takes too much"):
        assert in_blocks.sql(COUNT, estimator="model").estimator == "shrunk"


def test_where_a_model_cannot_help_it_says_so(tmp_path):
    table = people(300, 9).append_column("flag", pa.array(["y", "n", "n"] * 100))
    published(tmp_path, table, "rho-privacy(0.4, 0.7)", "uniform", sensitive=["ill", "flag"])
    release = sf.open(tmp_path / "r")
    sql = "SELECT COUNT(*) FROM release WHERE ill = 'v2' AND flag = 'y'"
    with pytest.warns(WeakPromiseWarning, match="one sensitive column at a time"):
        found = release.sql(sql, estimator="model")
    assert found.estimator == "inverse"
    assert found.value == release.sql(sql).value
    assert release.sql("SELECT COUNT(*) FROM release", estimator="model").value == 300


def test_few_records_fall_back(tmp_path):
    published(tmp_path, people(60, 9), "l-diversity(2)", "optimal")
    with pytest.warns(WeakPromiseWarning, match="too few to learn from"):
        found = sf.open(tmp_path / "r").sql(COUNT, estimator="model")
    assert found.estimator == "shrunk"


def test_missing_values_dates_and_flags_are_coded(tmp_path):
    draw = np.random.default_rng(3)
    table = pa.table(
        {
            "born": pa.array(draw.integers(0, 20_000, 600).astype("datetime64[D]")),
            "weight": pa.array([None if each < 60 else each for each in draw.normal(75, 10, 600)]),
            "smokes": pa.array(draw.random(600) < 0.3),
            "ill": [f"v{each}" for each in draw.integers(0, 5, 600)],
        }
    )
    published(
        tmp_path, table, "rho-privacy(0.4, 0.7)", "uniform", quasi=["born", "weight", "smokes"]
    )
    found = sf.open(tmp_path / "r").sql(
        "SELECT COUNT(*) FROM release WHERE smokes AND ill = 'v1'", estimator="model"
    )
    assert found.estimator == "model"
    assert found.stderr > 0


def test_on_the_command_line(cli, kept):
    release, _ = kept
    run = cli("query", release.path, COUNT, "--estimator", "model", "--json")
    assert run.code == 0
    assert run.json["estimator"] == "model"


def test_an_answer_says_how_it_was_estimated(cli, kept):
    release, _ = kept
    run = cli("query", release.path, COUNT)
    assert run.out.splitlines()[-1].startswith("Estimated by 'shrunk': ")
    assert "Estimated by" not in cli("query", release.path, COUNT, "--estimator", "inverse").out
    assert "Estimated by" not in cli("query", release.path, "SELECT COUNT(*) FROM release").out


def test_a_release_lists_its_estimators(cli, kept, tmp_path):
    release, _ = kept
    shown = cli("describe", release.path).out
    assert "shrunk (default)" in shown
    assert "model" in shown
    published(tmp_path, people(60, 9), "l-diversity(2)", "optimal")
    assert not any(name == "model" for name, *_ in estimators_of(sf.open(tmp_path / "r")))


def test_every_estimator_is_explained(cli, tmp_path):
    assert {name for each in SOURCES.values() for name in each.estimators} == set(WORDS)
    published(tmp_path, people(90, 9), "l-diversity(2)", "heterogeneous")
    assert "(default)" in cli("describe", tmp_path / "r").out
    assert "Estimated by" in cli("query", tmp_path / "r", COUNT).out
