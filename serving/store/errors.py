"""This module names the errors of the store.

::

    PredictorError
    └── StoreError                  the database of the service cannot be used as asked
        ├── StoreUnavailableError   it does not answer, or its disk is full; trying again may help
        ├── StoreSchemaError        its tables are of another version than this code
        ├── FencedError             another instance has become the writer
        └── SequenceConflictError   the log does not end where the writer believes it to
"""

from predictor.errors import PredictorError


class StoreError(PredictorError):
    """The database of the service cannot be used as asked."""

    code = "store"


class StoreUnavailableError(StoreError):
    """The database does not answer, or cannot write; nothing is known to be recorded."""

    code = "store-unavailable"


class StoreSchemaError(StoreError):
    """The tables are of another version than this code."""

    code = "store-schema"


class FencedError(StoreError):
    """Another instance has become the writer; nothing was recorded."""

    code = "not-the-writer"


class SequenceConflictError(StoreError):
    """The log does not end where the writer believes it to; nothing was recorded.

    Attributes:
        next_sequence: where it ends in truth.
    """

    code = "sequence-conflict"

    def __init__(self, message: str, *, next_sequence: int) -> None:
        super().__init__(message)
        self.next_sequence = next_sequence
