"""Measure and compare: workloads, metrics, reports, and the papers rerun."""
