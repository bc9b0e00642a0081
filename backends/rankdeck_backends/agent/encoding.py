"""Text and bytes. Paths, arguments and variables are bytes on Linux; JSON has only text.

Bytes that are no UTF-8 travel as lone surrogates (PEP 383), whatever the node's locale says.
"""


def raw(text):
    """The bytes of a text that came from JSON."""
    return text.encode("utf-8", "surrogateescape")


def text(data):
    """The text of bytes that came from the system."""
    return data.decode("utf-8", "surrogateescape")


def printable(data):
    """Bytes as text for a message: what is no UTF-8 is shown as a replacement character."""
    return data.decode("utf-8", "replace")
