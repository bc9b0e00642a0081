"""Tests of the runs floor."""
