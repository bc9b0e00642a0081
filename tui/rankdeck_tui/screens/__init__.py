"""The screens. Each shows values of the floors below and passes on what was asked for; none decides."""
