"""The family of errors that a user can cause and mend."""


class TilewrightError(Exception):
    """Base of every error that is the user's to fix: bad source, bad arguments, an illegal transformation."""
