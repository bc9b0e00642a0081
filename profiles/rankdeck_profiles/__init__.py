"""What to run: saved profiles and pools, placement, and the launch plan computed from them. Pure.

The only I/O on this floor is reading and writing the user's TOML files; the same inputs give the same plan.
"""
