"""The hub loses nothing to those who keep up, and tells those who do not."""

import asyncio
import json

import pytest

from serving.live.hub import ALL_TOPICS, Change, Frame, Hub, Topic

pytestmark = pytest.mark.anyio


def change(value: int, topic: Topic = Topic.QUEUE) -> Change:
    return Change.of(topic, "moved", {"value": value})


def values(frame: Frame | None) -> list[int]:
    assert frame is not None
    return [item["data"]["value"] for item in json.loads(frame.text)]


async def test_a_watcher_gets_every_change_in_order() -> None:
    hub = Hub()
    with hub.watch(ALL_TOPICS, None) as watch:
        for number in range(1, 6):
            hub.publish(number, [change(number), change(number * 10)])
        frame = await watch.next(1.0)
    assert frame is not None
    assert values(frame) == [1, 10, 2, 20, 3, 30, 4, 40, 5, 50]
    assert (frame.sequence, frame.resync, hub.watchers) == (5, False, 0)


async def test_a_watcher_that_comes_back_gets_what_it_missed() -> None:
    hub = Hub()
    for number in range(1, 6):
        hub.publish(number, [change(number)])
    assert values(await hub.watch(ALL_TOPICS, 3).next(1.0)) == [4, 5]


async def test_a_watcher_of_one_topic_sees_no_other() -> None:
    hub = Hub()
    watch = hub.watch(frozenset({Topic.ALERTS}), None)
    hub.publish(1, [change(1)])
    hub.publish(2, [change(2, Topic.ALERTS)])
    assert values(await watch.next(1.0)) == [2]


async def test_silence_gives_a_heartbeat() -> None:
    hub = Hub()
    hub.start(7)
    frame = await hub.watch(ALL_TOPICS, None).next(0.01)
    assert frame == Frame(sequence=7)


async def test_one_that_fell_out_of_the_ring_must_fetch_the_state_anew() -> None:
    hub = Hub(groups=3)
    watch = hub.watch(ALL_TOPICS, None)
    for number in range(1, 6):
        hub.publish(number, [change(number)])
    frame = await watch.next(1.0)
    assert frame is not None
    assert (frame.resync, frame.sequence, hub.resyncs) == (True, 5, 1)
    hub.publish(6, [change(6)])
    assert values(await watch.next(1.0)) == [6]


@pytest.mark.parametrize("after", [2, 99])
async def test_a_sequence_from_another_life_is_answered_with_a_resync(after: int) -> None:
    hub = Hub()
    hub.start(10)
    frame = await hub.watch(ALL_TOPICS, after).next(1.0)
    assert frame == Frame(sequence=10, resync=True)


async def test_closing_sends_watchers_home() -> None:
    hub = Hub()
    waiting = asyncio.create_task(hub.watch(ALL_TOPICS, None).next(60.0))
    await asyncio.sleep(0)
    hub.close()
    assert await waiting is None


async def test_a_sleeping_watcher_is_woken() -> None:
    hub = Hub()
    watch = hub.watch(ALL_TOPICS, None)
    waiting = asyncio.create_task(watch.next(5.0))
    await asyncio.sleep(0)
    hub.publish(1, [change(1)])
    assert values(await waiting) == [1]


async def test_many_watchers_are_told_in_fewer_and_larger_frames() -> None:
    hub = Hub()
    hub.watchers = 400
    watch = hub.watch(ALL_TOPICS, None)
    hub.publish(1, [change(1)])
    assert values(await watch.next(1.0)) == [1]
    hub.publish(2, [change(2)])
    waiting = asyncio.create_task(watch.next(1.0))
    await asyncio.sleep(hub.pace_s / 4)
    hub.publish(3, [change(3)])
    assert values(await waiting) == [2, 3]
