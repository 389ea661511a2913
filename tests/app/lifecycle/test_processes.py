"""The table that several processes share; here all of them are in one process."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.lifecycle.processes import _DEFERRING_SECONDS, ProcessTable, ServiceProcess, State
from model.errors import CheckpointError

pytestmark = pytest.mark.anyio
OLD, NEW = ("everyday 1",), ("everyday 2",)


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    table = ProcessTable(2)
    yield table
    table.close()


async def until_decided(table: ProcessTable, *votes: "asyncio.Task[None]") -> list[bool]:
    """Let the supervisor decide until all votes have an answer; whether each was accepted."""
    async with asyncio.timeout(60):
        while not all(vote.done() for vote in votes):
            await asyncio.sleep(0)
            table.decide()
    assert all(vote.exception() is None or isinstance(vote.exception(), CheckpointError) for vote in votes)
    return [vote.exception() is None for vote in votes]


def voting(process: ServiceProcess, checkpoints: tuple[str, ...]) -> "asyncio.Task[None]":
    return asyncio.create_task(process.agree(checkpoints))


async def join(table: ProcessTable, *indices: int) -> list[ServiceProcess]:
    """Processes that serve the old checkpoints."""
    for index in indices:
        table.begin(index)
    processes = [table.process(index) for index in indices]
    assert all(await until_decided(table, *(voting(process, OLD) for process in processes)))
    for process in processes:
        process.beat(is_leaving=False, is_stuck=False)
    await asyncio.gather(*(process.become_ready() for process in processes))
    return processes


async def test_the_first_processes_wait_for_each_other(table: ProcessTable) -> None:
    table.begin(0)
    first = voting(table.process(0), OLD)
    for _ in range(3):
        await asyncio.sleep(0)
        table.decide()
    assert not first.done()
    table.begin(1)
    assert await until_decided(table, first, voting(table.process(1), OLD)) == [True, True]


async def test_processes_that_are_told_to_end_while_they_load_have_not_failed(table: ProcessTable) -> None:
    table.begin(0)
    table.begin(1)
    processes = [table.process(0), table.process(1)]
    for process in processes:
        process.beat(is_leaving=True, is_stuck=False)
    votes = [voting(process, OLD) for process in processes]
    await asyncio.sleep(0)
    for process in processes:
        process.beat(is_leaving=True, is_stuck=False)
    assert await until_decided(table, *votes) == [True, True]
    await asyncio.gather(*(process.become_ready() for process in processes))
    for process in processes:
        process.beat(is_leaving=True, is_stuck=False)
        assert table.state(process.index) == State.LEAVING


async def test_a_reload_that_all_can_do_is_decided_for(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    assert not any(process.begin_round() for process in processes)
    processes[1].request_reload()
    table.decide()
    assert [process.begin_round() for process in processes] == [True, True]
    first = voting(processes[0], NEW)
    await asyncio.sleep(0)
    table.decide()
    assert not first.done()
    assert await until_decided(table, first, voting(processes[1], NEW)) == [True, True]
    assert not any(process.begin_round() for process in processes)


async def test_a_reload_that_one_cannot_do_changes_nothing(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    table.request_reload()
    table.decide()
    assert all(process.begin_round() for process in processes)
    vote = voting(processes[0], NEW)
    processes[1].refuse()
    assert await until_decided(table, vote) == [False]


async def test_a_process_that_ends_does_not_hold_up_a_reload(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    table.request_reload()
    table.decide()
    assert all(process.begin_round() for process in processes)
    vote = voting(processes[0], NEW)
    await asyncio.sleep(0)
    table.clear(1)
    assert await until_decided(table, vote) == [True]


async def a_newcomer_with_other_checkpoints(
    table: ProcessTable,
) -> tuple[ServiceProcess, "asyncio.Task[None]"]:
    """A process of two, and the vote of the other one, which was started again with new checkpoints."""
    processes = await join(table, 0, 1)
    table.clear(1)
    table.begin(1)
    newcomer = voting(table.process(1), NEW)
    await asyncio.sleep(0)
    table.decide()
    assert processes[0].begin_round()
    return processes[0], newcomer


async def test_a_process_with_other_checkpoints_makes_the_others_load_them(table: ProcessTable) -> None:
    older, newcomer = await a_newcomer_with_other_checkpoints(table)
    assert await until_decided(table, newcomer, voting(older, NEW)) == [True, True]


async def test_a_process_with_checkpoints_that_the_others_cannot_load_does_not_join(
    table: ProcessTable,
) -> None:
    older, newcomer = await a_newcomer_with_other_checkpoints(table)
    older.refuse()
    assert await until_decided(table, newcomer) == [False]


async def test_a_reload_during_a_start_is_made_up_for(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    table.clear(1)
    table.begin(1)
    late = table.process(1)
    table.request_reload()
    table.decide()
    assert processes[0].begin_round()
    await late.agree(OLD)
    await late.become_ready()
    assert late.begin_round()
    votes = [voting(process, NEW) for process in (processes[0], late)]
    assert await until_decided(table, *votes) == [True, True]


async def test_a_process_gets_no_connection_before_it_answers(table: ProcessTable) -> None:
    """While a process waits for the one that joins with it, another one may serve already."""
    table.begin(0)
    table.begin(1)
    first, second = table.process(0), table.process(1)
    assert all(await until_decided(table, voting(first, OLD), voting(second, OLD)))
    joining = asyncio.create_task(first.become_ready())
    await asyncio.sleep(0)
    await second.become_ready()
    for process in (first, second):
        process.beat(is_leaving=False, is_stuck=False)
    assert not joining.done()
    assert [process.may_accept() for process in (first, second)] == [False, True]
    await joining
    assert [process.may_accept() for process in (first, second)] == [True, True]


async def test_a_process_gets_no_connection_from_its_signal_on(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    processes[0].leave()
    assert [process.may_accept() for process in processes] == [False, True]


async def test_a_change_that_two_processes_find_is_loaded_once(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    processes[0].request_reload()
    table.decide()
    processes[1].request_reload()
    assert all(process.begin_round() for process in processes)
    assert await until_decided(table, *(voting(process, NEW) for process in processes)) == [True, True]
    table.decide()
    assert not any(process.begin_round() for process in processes)


async def test_a_connection_is_left_to_the_process_that_has_fewer(
    table: ProcessTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = await join(table, 0, 1)
    now = 1000.0
    monkeypatch.setattr("app.lifecycle.processes.time", SimpleNamespace(monotonic=lambda: now))
    for process in processes:
        process.beat(is_leaving=False, is_stuck=False)
    processes[0].open_connection()
    assert [process.may_accept() for process in processes] == [False, True]
    now += 1.1 * _DEFERRING_SECONDS
    assert processes[0].may_accept()
    processes[1].open_connection()
    processes[1].open_connection()
    assert [process.may_accept() for process in processes] == [True, False]
    # The clock of the other connection does not count.
    now += 0.9 * _DEFERRING_SECONDS
    processes[0].open_connection()
    processes[0].open_connection()
    assert [process.may_accept() for process in processes] == [False, True]


@pytest.mark.parametrize("trouble", ["stuck", "leaving", "silent", "gone"])
async def test_a_process_in_trouble_gets_no_connection(
    table: ProcessTable, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    processes = await join(table, 0, 1)
    for _ in range(9):
        processes[0].open_connection()
    if trouble == "gone":
        table.clear(1)
    elif trouble == "silent":
        now = 1e9
        monkeypatch.setattr("app.lifecycle.processes.time", SimpleNamespace(monotonic=lambda: now))
        processes[0].beat(is_leaving=False, is_stuck=False)
    else:
        processes[1].beat(is_leaving=trouble == "leaving", is_stuck=trouble == "stuck")
    assert processes[0].may_accept()
    if trouble == "leaving":
        assert not processes[1].may_accept()


async def test_the_last_process_that_listens_knows(table: ProcessTable) -> None:
    processes = await join(table, 0, 1)
    for process in processes:
        process.listen()
    assert [process.stop_listening() for process in processes] == [False, True]
