"""This module sets up logs: one JSON object per line, on one stream, for our code and for uvicorn's."""

import logging
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

_SHARED: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def build_logger(stream: TextIO, level: str = "info") -> FilteringBoundLogger:
    """Return a logger that writes JSON lines to the stream."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[*_SHARED, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=True,
    )
    return logger


def capture_uvicorn(stream: TextIO, level: str = "info") -> None:
    """Send uvicorn's own records to the same stream in the same form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=list(_SHARED),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logger = logging.getLogger("uvicorn")
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
