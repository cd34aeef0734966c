"""PrivBayes as a peer: synthetic records by DataSynthesizer, in an environment of its own.

DataSynthesizer needs an older NumPy than this program, so it runs in another Python, named by the
environment variable SFUMATO_PRIVBAYES_PYTHON. Its ε bounds what the inclusion of one record
changes; ε = ln(1 + β) puts that beside the posterior-to-prior bound of β-likeness, which is a
different promise (errata H20): a comparison, not an equivalence.
"""

from __future__ import annotations

import math

import pyarrow as pa

from papers.outside import Outside

PYTHON = "SFUMATO_PRIVBAYES_PYTHON"

_SCRIPT = """
import sys, warnings
warnings.filterwarnings("ignore")
import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
folder, epsilon, degree, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
names = list(pd.read_csv(folder + "/raw.csv", nrows=1).columns)
describer = DataDescriber(category_threshold=10**9)
describer.describe_dataset_in_correlated_attribute_mode(
    dataset_file=folder + "/raw.csv", epsilon=epsilon, k=degree, seed=seed,
    attribute_to_is_categorical={name: True for name in names},
    attribute_to_is_candidate_key={name: False for name in names})
describer.save_dataset_description_to_file(folder + "/description.json")
generator = DataGenerator()
rows = len(pd.read_csv(folder + "/raw.csv"))
generator.generate_dataset_in_correlated_attribute_mode(rows, folder + "/description.json", seed)
generator.save_synthetic_data(folder + "/synthetic.csv")
"""


DATA_SYNTHESIZER = Outside("PrivBayes", PYTHON, "DataSynthesizer", _SCRIPT)
available = DATA_SYNTHESIZER.available


def epsilon_for(beta: float) -> float:
    """ε = ln(1 + β), as the heterogeneous-generalization paper compares (caveat of H20).

    >>> round(epsilon_for(3), 3)
    1.386
    """
    return math.log1p(beta)


def privbayes(table: pa.Table, epsilon: float, *, degree: int = 2, seed: int = 0) -> pa.Table:
    """As many synthetic records as `table` has, columns of the same types.

    `degree` is how many parents an attribute may have in the Bayesian network.
    """
    return DATA_SYNTHESIZER.make(table, repr(epsilon), degree, seed)
