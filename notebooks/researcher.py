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
# # The researcher: what a promise costs, and what an attacker reaches
#
# Publish one table under several promises, ask the same question of each, attack each, and look at both
# sides of the bargain.

# %%
import tempfile
from pathlib import Path

import altair as alt
import pandas as pd

import sfumato as sf
from sfumato.datasets import write_dataset

alt.renderers.enable("svg")  # drawn here, by vl-convert-python: no network
folder = Path(tempfile.mkdtemp())
write_dataset("census", 5000, folder / "people.parquet", 11)
table = sf.read(
    folder / "people.parquet",
    quasi=["age", "gender", "education"],
    sensitive="occupation",
    drop=["marital", "race", "workclass", "country"],
)
true = pd.read_parquet(folder / "people.parquet")
value = true["gender"].iloc[0]

# %% [markdown]
# l-diversity for growing l: the error bar of one count grows, and what the attack gains over guessing
# shrinks.

# %%
rows = []
top = true["occupation"].value_counts().index[0]
for level in (2, 4, 8):
    place = folder / f"l{level}"
    sf.publish(table, f"l-diversity({level})", mechanism="optimal", to=place)
    answer = sf.open(place).sql(
        f"SELECT COUNT(*) FROM release WHERE gender = '{value}' AND occupation = '{top}'"
    )
    [outcome] = sf.attack(table, place, attacks="naive-bayes", targets=1000, fresh=False)
    rows.append(
        {
            "l": level,
            "count": answer.value,
            "low": answer.low,
            "high": answer.high,
            "advantage": outcome.advantage.value,
        }
    )
outcome

# %%
truth = int(((true["gender"] == value) & (true["occupation"] == top)).sum())
frame = pd.DataFrame(rows)
frame["truth"] = truth
frame

# %%
base = alt.Chart(frame).encode(x=alt.X("l:O", title="l"))
bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title="people"), y2="high:Q")
dots = base.mark_point(filled=True, size=80).encode(y="count:Q")
line = alt.Chart(frame).mark_rule(strokeDash=[4, 4]).encode(y="truth:Q")
bars + dots + line

# %%
widths = [row["high"] - row["low"] for row in rows]
assert widths[0] < widths[-1]
