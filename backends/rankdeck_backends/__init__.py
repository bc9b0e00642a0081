"""How nodes are reached: one backend a way of running the agent with its stdin and stdout in our hand."""
