"""The whole pipe on real input: commands and screens of a user, four nodes, real SSH."""
