"""The tests of the pairwise system: ``make pairwise-test``."""
