# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The analyst: ask a release, read the error bars
#
# You received a release. Values in it were redrawn or dealt into buckets on purpose, so counts are not
# read off but estimated, and every answer says how sure it is.

# %%
import tempfile
from pathlib import Path

import sfumato as sf
from sfumato.datasets import write_dataset

folder = Path(tempfile.mkdtemp())
write_dataset("census", 6000, folder / "people.parquet", 3)
sf.publish(
    folder / "people.parquet",
    "rho-privacy(0.08, 1/3)",
    mechanism="uniform",
    to=folder / "release",
    quasi=["age", "gender", "education"],
    sensitive="occupation",
    drop=["marital", "race", "workclass", "country"],
)
release = sf.open(folder / "release")
release

# %% [markdown]
# One number, with its standard error and interval:

# %%
one = release.sql("SELECT COUNT(*) FROM release WHERE occupation = 'bookkeeper' AND age >= 40")
one

# %% [markdown]
# A table; each cell has its own error bar.

# %%
table = release.sql(
    "SELECT occupation, COUNT(*) AS people FROM release WHERE gender = 'female' GROUP BY occupation"
)
table

# %% [markdown]
# The same as a chart: a dot is the estimate, the line its interval.

# %%
import altair as alt

alt.renderers.enable("svg")  # drawn here, by vl-convert-python: no network

frame = table.to_pandas()
frame["occupation"] = frame["occupation"].astype(str)
base = alt.Chart(frame.head(15)).encode(y=alt.Y("occupation:N", title=None))
chart = base.mark_rule().encode(
    x=alt.X("people_low:Q", title="women"), x2="people_high:Q"
) + base.mark_point(filled=True).encode(x="people:Q")
chart

# %%
assert (frame["people_low"] <= frame["people"]).all()
assert (frame["people"] <= frame["people_high"]).all()
