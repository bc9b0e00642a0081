"""The command `rankdeck`. Imports here stay light: Textual is only loaded when a screen is opened."""
