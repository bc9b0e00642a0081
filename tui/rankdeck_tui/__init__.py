"""What people type and see: the command line (cli/) and the Textual screens."""

__version__ = "0.1.0"
