"""What people type and see: the command line (cli/) and the Textual screens."""
