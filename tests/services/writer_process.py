"""A process that writes whenever it may: ``python -m tests.services.writer_process URL NAME``.

It prints one line for each change of role, and one for each event once that is on disk.
"""

import asyncio
import sys

from serving.logs import build_logger
from serving.store.database import open_database
from serving.store.errors import StoreError
from serving.store.event_log import Change, NewEvent
from serving.store.holder import this_process
from serving.store.lease import LeaseKeeper
from serving.store.schema import migrate
from serving.store.sql_event_log import SqlEventLog
from serving.store.writer import EventWriter


def say(*words: object) -> None:
    print(*words, flush=True)


async def write(log: SqlEventLog, epoch: int, name: str) -> None:
    next_sequence = await asyncio.to_thread(log.next_sequence)
    writer = EventWriter(log, epoch=epoch, next_sequence=next_sequence)
    number = 0

    async def one() -> None:
        nonlocal number
        while True:
            number += 1
            event = f"{name}.{epoch}.{number}"
            sequence = await writer.append(
                Change(events=(NewEvent(moment_s=0.0, kind="x", payload=f'"{event}"'),))
            )
            say("recorded", event, sequence)
            await asyncio.sleep(0.002)

    try:
        await asyncio.gather(*(one() for _ in range(4)))
    except StoreError as error:
        say("refused", error.code)
    await writer.close()


async def main(url: str, name: str) -> None:
    loop = asyncio.get_running_loop()
    engine = open_database(url)
    migrate(engine)
    log = SqlEventLog(engine)
    epochs: asyncio.Queue[int | None] = asyncio.Queue()

    def tell(epoch: int | None) -> None:
        loop.call_soon_threadsafe(epochs.put_nowait, epoch)

    keeper = LeaseKeeper(
        log, holder=this_process(), logger=build_logger(sys.stderr, "info"), on_change=tell,
    )  # fmt: skip
    keeper.start()
    say("waiting")
    while True:
        epoch = await epochs.get()
        if epoch is not None:
            say("leading", epoch)
            await write(log, epoch, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
