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
# # The steward: from a table to a release
#
# You have a table of people and answer for it. Choose a promise with open eyes, publish, check. The
# people here are generated; with your own table, change the first cell.

# %%
import tempfile
from pathlib import Path

import sfumato as sf
from sfumato.datasets import write_dataset

folder = Path(tempfile.mkdtemp())
write_dataset("hospital", 4000, folder / "patients.parquet", 1)
table = sf.read(
    folder / "patients.parquet",
    quasi=["age", "sex", "region"],
    sensitive="diagnosis",
    drop=["admission"],
)

# %% [markdown]
# What is in it, and what would a promise mean?

# %%
sf.describe(table, "l-diversity(4)")

# %% [markdown]
# Two promises side by side: how far answers are off, and what an attacker gains.

# %%
comparison = sf.compare(
    table,
    ["l-diversity(4)", "rho-privacy(0.1, 0.4)"],
    out=folder / "comparison",
    questions=100,
    attacks=["naive-bayes"],
    jobs=1,
)
comparison

# %% [markdown]
# Publish under the first. The release is a folder that appears whole or not at all.

# %%
done = sf.publish(table, "l-diversity(4)", to=folder / "release")
done

# %% [markdown]
# Nobody should take our word for it: the audit compares the release with the table.

# %%
verdict = sf.audit(folder / "patients.parquet", folder / "release")
verdict

# %%
assert verdict.holds is True
