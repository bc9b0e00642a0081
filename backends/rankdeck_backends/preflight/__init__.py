"""Preflight: what a pool's readings say about whether a run would work there.

Checks are pure functions of the readings (`subject`), each described once (`check`), listed in `catalogue`,
and turned into findings by `judge`.
"""
