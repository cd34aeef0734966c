"""The averaging attack on a history of releases of the same people.

With fresh draws the adversary is right more and more often; with one key file as often after 24
releases as after the first.

python -m benchmarks.history [--people N] [--releases N] [--guarantee G] [--mechanism M]
"""

from __future__ import annotations

import argparse

from benchmarks.measure import generated, print_table
from papers.history import notice_changes, simulate_history
from sfumato.datasets import GENERATORS
from sfumato.table import read


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--releases", type=int, default=24)
    parser.add_argument("--guarantee", default="rho-privacy(0.08, 1/3)")
    parser.add_argument("--mechanism", default="uniform")
    given = parser.parse_args()
    roles = GENERATORS["census"]
    source = generated("census", given.people)
    table = read(source, quasi=roles.quasi, sensitive=roles.sensitive)
    options = {"releases": given.releases, "mechanism": given.mechanism}
    fresh = simulate_history(table, given.guarantee, key_file=False, **options)
    keyed = simulate_history(table, given.guarantee, key_file=True, **options)
    print_table(
        f"The averaging attack on {given.releases} releases of {given.people:,} people "
        f"({given.guarantee} by {given.mechanism}; best guess without a release "
        f"{100 * fresh.prior:.1f} %)",
        ("releases", "fresh draws: right guesses", "one key file: right guesses"),
        [
            (number, str(one), str(two))
            for number, (one, two) in enumerate(zip(fresh.accuracy, keyed.accuracy, strict=True), 1)
            if number in (1, 2, 3, 4, 6, 8, 12, 16, 20, given.releases)
        ],
    )
    seen = notice_changes(table, given.guarantee, mechanism=given.mechanism)
    print(
        f"\nOf {seen.changed:,} people whose value changed between two releases under one key "
        f"file, {seen.seen:,} are seen to change; of the {seen.people - seen.changed:,} others, "
        f"{seen.seen_unchanged}."
    )


if __name__ == "__main__":
    main()
