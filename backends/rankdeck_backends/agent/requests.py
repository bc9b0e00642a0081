"""Reading requests: what is missing or of the wrong kind is told by its name."""

from .errors import AgentError

_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}
_REQUIRED = object()


def field(request, name, kind, default=_REQUIRED):
    """One field of a request, checked.

    Args:
        request: the header.
        name: the field.
        kind: str, int, float (takes whole numbers too), list, dict or bool.
        default: taken where it is missing or null; without one that is an error.

    Raises:
        AgentError: `bad_request`.
    """
    value = request.get(name)
    if value is None:
        if default is _REQUIRED:
            raise AgentError(
                "bad_request", "{}: {} is missing ({})".format(request.get("op"), name, _NAMES[kind])
            )
        return default
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and number:
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise AgentError(
            "bad_request",
            "{}: {} is {!r:.80}; allowed: {}".format(request.get("op"), name, value, _NAMES[kind]),
        )
    return value
