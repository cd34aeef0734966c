"""Reconstruction privacy: personal groups, exact tails, sampling-perturbing-scaling."""
