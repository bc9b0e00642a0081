"""A preflight report as a matrix of nodes and checks: what is in which cell, how it is painted and told."""
