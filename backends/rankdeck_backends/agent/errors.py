"""What the agent answers when it cannot do what was asked."""


class AgentError(Exception):
    """A refusal that a person can act on.

    Attributes:
        kind: one word for programs, of those that docs/agent-protocol.md lists.
        message: names the thing, what was found and what is allowed.
        hint: what to do; may be empty.
    """

    def __init__(self, kind, message, hint=""):
        Exception.__init__(self, message)
        self.kind = kind
        self.message = message
        self.hint = hint

    def as_json(self):
        """The `error` member of a reply."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint}
