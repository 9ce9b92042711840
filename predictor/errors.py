"""This module names every error the domain raises.

::

    PredictorError
    ├── InputError                  what the caller gave cannot be used
    │   ├── FormatError             the file is not of the stated (or of any known) format
    │   ├── EmptyInputError         the file or table has no rows
    │   ├── SchemaError             the table lacks columns, or columns have the wrong type
    │   └── ArgumentError           a parameter is out of its range
    ├── NotFittedError              predict before fit, or calibrate before fit
    ├── BundleError                 a model bundle cannot be used
    │   ├── BundleMissingError      there is none at that place
    │   ├── BundleCorruptError      a file is absent, altered or unreadable
    │   └── FeatureSpecError        the bundle was trained on other features than this code computes
    └── PipelineError               a batch job cannot go on
        ├── LockHeldError           another run holds the lock
        └── GateRefusedError        the challenger did not pass the gate

Each class carries a stable ``code`` that the HTTP service and the CLI print. The domain knows no
HTTP status and no exit code; those mappings live in ``serving`` and ``pipelines``.
"""

from collections.abc import Sequence


class PredictorError(Exception):
    """Base of all errors that this project raises on purpose."""

    code = "predictor-error"

    def __init__(self, message: str, *, faults: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.faults = tuple(faults)

    def __str__(self) -> str:
        if not self.faults:
            return self.message
        return self.message + "".join(f"\n  - {fault}" for fault in self.faults)


class InputError(PredictorError):
    """What the caller gave cannot be used."""

    code = "invalid-input"


class FormatError(InputError):
    """The file is not of the stated format, or of no known format."""

    code = "unknown-format"


class EmptyInputError(InputError):
    """The file or table has no rows."""

    code = "empty-input"


class SchemaError(InputError):
    """The table lacks columns, or columns have the wrong type; all faults are listed."""

    code = "schema"


class ArgumentError(InputError):
    """A parameter is outside of its range."""

    code = "argument"


class NotFittedError(PredictorError):
    """A verb was called before the one that it needs."""

    code = "not-fitted"


class BundleError(PredictorError):
    """A model bundle cannot be used."""

    code = "bundle"


class BundleMissingError(BundleError):
    """There is no bundle at that place."""

    code = "bundle-missing"


class BundleCorruptError(BundleError):
    """A file of the bundle is absent, altered or unreadable."""

    code = "bundle-corrupt"


class FeatureSpecError(BundleError):
    """The bundle was trained on other features than this code computes."""

    code = "feature-spec"


class PipelineError(PredictorError):
    """A batch job cannot go on."""

    code = "pipeline"


class LockHeldError(PipelineError):
    """Another run holds the lock."""

    code = "lock-held"


class GateRefusedError(PipelineError):
    """The challenger did not pass the promotion gate."""

    code = "gate-refused"
