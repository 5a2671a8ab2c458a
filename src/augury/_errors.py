"""The exceptions of Augury: one sentence each, saying what must hold, what was got, and what to do."""


class AuguryError(Exception):
    """The base class of every error that Augury raises on purpose."""


class SpaceError(AuguryError, ValueError):
    """A search space, a parameter or a point of the space is not valid."""


class DataError(AuguryError, ValueError):
    """An observation, a trial or a saved state is not valid."""


class UnsupportedError(AuguryError, TypeError):
    """Parts that do not fit together, or an argument of the wrong kind."""


class NumericsError(AuguryError, RuntimeError):
    """A computation failed and no fallback was left."""


class StorageError(AuguryError, RuntimeError):
    """A study could not be read from, or written to, its storage."""


class SpaceExhausted(AuguryError):  # noqa: N818 - a state of the search, not a mistake
    """Every point of a finite space has been evaluated or is pending."""
