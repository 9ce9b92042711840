"""This module answers ``POST /v1/outcomes``: what happened to jobs, one event or many."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from serving.decoding import decode_struct, malformed, salvage
from serving.endpoint import JsonEndpoint
from serving.ledger import Ledger
from serving.names import Names
from serving.problems import Fault, Problem, ProblemError, invalid_request, problem
from serving.routes.predictions import failed_item
from serving.schemas import FailedItem, OutcomeEnvelope, OutcomeEvent, Receipt, ReceiptBatch, as_text
from serving.settings import Settings
from serving.turns import give_way

PATH = "/v1/outcomes"
_TURN = 100  # events decoded between two turns of others


class OutcomesEndpoint(JsonEndpoint):
    """Takes events; each is on disk before its receipt leaves."""

    scope = "outcome"

    def __init__(self, *, ledger: Ledger, settings: Settings, names: Names) -> None:
        super().__init__(PATH, settings.max_body_bytes)
        self._ledger = ledger
        self._names = names
        self._max_jobs = settings.max_jobs
        self._envelope_decoder = msgspec.json.Decoder(OutcomeEnvelope)
        self._event_decoder = msgspec.json.Decoder(OutcomeEvent)

    async def answer(self, body: bytes) -> bytes:
        """Return the receipt of one event, or those of a batch."""
        try:
            envelope = self._envelope_decoder.decode(body)
        except msgspec.ValidationError as error:
            raise ProblemError(invalid_request([_shape_fault(str(error))])) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise malformed(body, error) from None
        if envelope.outcomes is not UNSET:
            return await self._answer_batch(body, envelope.outcomes)
        event = decode_struct(body, self._event_decoder, OutcomeEvent)
        if isinstance(event, list):
            raise ProblemError(invalid_request(self._all_faults(body, event)))
        self._names.hide(event)
        (result,) = await self._ledger.record([event])
        if isinstance(result, Problem):
            raise ProblemError(result)
        return msgspec.json.encode(result)

    async def _answer_batch(self, body: bytes, raws: Sequence[msgspec.Raw]) -> bytes:
        beside = [
            name for name in msgspec.json.decode(body, type=dict[str, msgspec.Raw]) if name != "outcomes"
        ]
        if beside:
            detail = "a batch has the field 'outcomes' only"
            faults = [Fault(pointer=f"/{name}", code="unknown-field", detail=detail) for name in beside]
            raise ProblemError(invalid_request(faults))
        if len(raws) > self._max_jobs:
            detail = f"the batch holds {len(raws)} events; at most {self._max_jobs} are taken at once"
            fault = Fault(pointer="/outcomes", code="too-many-jobs", detail=detail)
            raise ProblemError(problem("too-many-jobs", detail, faults=[fault]))
        decoded: list[OutcomeEvent | list[Fault]] = []
        for index, raw in enumerate(raws):
            decoded.append(decode_struct(raw, self._event_decoder, OutcomeEvent))
            if index % _TURN == _TURN - 1:
                await give_way()
        events = [event for event in decoded if isinstance(event, OutcomeEvent)]
        for one in events:
            self._names.hide(one)
        results = iter(await self._ledger.record(events))
        items: list[Receipt | FailedItem] = []
        for index, (raw, event) in enumerate(zip(raws, decoded, strict=True)):
            if isinstance(event, list):
                items.append(failed_item(raw, invalid_request(_placed(self._all_faults(raw, event), index))))
                continue
            result = next(results)
            items.append(_failed(event, result, index) if isinstance(result, Problem) else result)
        failed = sum(isinstance(item, FailedItem) for item in items)
        if failed == len(items) and any(item.status == 503 for item in items):
            raise ProblemError(problem("outcome-log-unavailable", headers=(("Retry-After", "5"),)))
        return msgspec.json.encode(ReceiptBatch(outcomes=items, failed=failed))

    def _all_faults(self, raw: bytes | msgspec.Raw, faults: Sequence[Fault]) -> list[Fault]:
        """Add to the faults of single fields those that the rest of the event has as a whole."""
        rest = salvage(raw, OutcomeEvent, faults)
        named = {fault.pointer for fault in faults}
        further = [] if rest is None else self._ledger.faults(rest)
        return [*faults, *(fault for fault in further if fault.pointer not in named)]


def _placed(faults: Sequence[Fault], index: int) -> list[Fault]:
    return [fault.below(f"/outcomes/{index}") for fault in faults]


def _failed(event: OutcomeEvent, answer: Problem, index: int) -> FailedItem:
    placed = invalid_request(_placed(answer.faults, index)) if answer.faults else answer
    return FailedItem(status=answer.status, job_id=as_text(event.job_id), problem=placed.view())


def _shape_fault(text: str) -> Fault:
    pointer = "/outcomes" if "$.outcomes" in text else ""
    detail = 'expected one event, or an object {"outcomes": [...]}' if not pointer else "expected an array"
    return Fault(pointer=pointer, code="wrong-type", detail=detail)
