"""Count questions by the thousand: made from a table, answered from it and from releases."""

from sfumato.workloads.answers import WorkloadAnswers, answers_of_shares, release_answers
from sfumato.workloads.generate import SizeClass, generate_workload, size_classes
from sfumato.workloads.people import CodedPeople, people_of, true_counts
from sfumato.workloads.questions import CountQuestion, Workload

__all__ = [
    "CodedPeople",
    "CountQuestion",
    "SizeClass",
    "Workload",
    "WorkloadAnswers",
    "answers_of_shares",
    "generate_workload",
    "people_of",
    "release_answers",
    "size_classes",
    "true_counts",
]
