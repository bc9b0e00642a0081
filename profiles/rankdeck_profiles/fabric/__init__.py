"""A node's network hardware as its readings show it, and the environment that follows from a pool's.

All pure: from text to small values (`devices`, `interfaces`, `modules`, `topology`, `inherited`), gathered in
`node`; then the rules (`choice`, `sockets`, `rules`) from the values of all nodes to variables with reasons.
"""
