"""The fair order: no client gets ahead, none starves, and none pays for what was removed."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.fair_queue import FairQueue

MOST = 200


@dataclass(eq=False)
class Work:
    client: str
    cost: int


Order = list[Work]
SOME_WORK = st.lists(st.builds(Work, st.sampled_from("abc"), st.integers(1, MOST)), max_size=40)
LINES = st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(1, MOST), min_size=1, max_size=20))


def queue_of(*items: Work) -> FairQueue[Work]:
    queue: FairQueue[Work] = FairQueue()
    for item in items:
        queue.add(item)
    return queue


def serve(queue: FairQueue[Work], most: int = 10**9) -> Order:
    order: Order = []
    while len(order) < most and (item := queue.first(lambda _: True)) is not None:
        queue.serve(item)
        order.append(item)
    return order


def clients(order: Order) -> str:
    return "".join(item.client for item in order)


def test_an_idle_client_saves_nothing_up() -> None:
    queue = queue_of(Work("a", 10), *[Work("b", 10) for _ in range(50)])
    serve(queue, 40)
    for _ in range(10):
        queue.add(Work("a", 10))
    assert Counter(clients(serve(queue, 10))) == {"a": 5, "b": 5}


@given(SOME_WORK)
def test_each_client_is_served_in_its_own_order_and_nothing_is_lost(items: Order) -> None:
    order = serve(queue_of(*items))
    assert Counter(map(id, order)) == Counter(map(id, items))
    for client in "abc":
        assert [i for i in order if i.client == client] == [i for i in items if i.client == client]


@given(LINES)
def test_a_waiting_client_is_never_behind_by_more_than_one_item_of_each(lines: dict[str, list[int]]) -> None:
    """Goyal et al., theorem 1, with equal weights."""
    queue = queue_of(*[Work(client, cost) for client, costs in lines.items() for cost in costs])
    served: Counter[str] = Counter()
    waiting = {client: len(costs) for client, costs in lines.items()}
    for item in serve(queue):
        served[item.client] += item.cost
        waiting[item.client] -= 1
        for one in (client for client in lines if waiting[client]):
            for other in lines:
                assert served[other] - served[one] <= max(lines[one]) + max(lines[other])


@given(LINES, st.integers(1, 100 * MOST), st.integers(0, 30), SOME_WORK)
def test_a_long_item_is_preceded_by_one_item_of_each_other_client_at_most(
    lines: dict[str, list[int]], cost: int, before: int, later: Order
) -> None:
    queue = queue_of(*[Work(client, each) for client, costs in lines.items() for each in costs])
    serve(queue, before)
    long = Work("long", cost)
    queue.add(long)
    for item in later:
        queue.add(item)
    order = serve(queue)
    overtaking = Counter(item.client for item in order[: order.index(long)])
    assert all(count == 1 for count in overtaking.values())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, MOST), st.booleans()), max_size=40))
def test_removed_items_cost_nothing(shapes: list[tuple[str, int, bool]]) -> None:
    kept = [Work(client, cost) for client, cost, is_kept in shapes if is_kept]
    queue, remaining = queue_of(), iter(kept)
    removed: Order = []
    for client, cost, is_kept in shapes:
        if is_kept:
            queue.add(next(remaining))
        else:
            removed.append(Work(client, cost))
            queue.add(removed[-1])
    for item in removed:
        assert queue.remove(item)
        assert not queue.remove(item)
    order = serve(queue)
    assert Counter(map(id, order)) == Counter(map(id, kept))
    for one in "abc":
        costs = [item.cost for item in kept if item.client == one]
        first = next((place for place, item in enumerate(order) if item.client == one), 0)
        assert not costs or first < 3


def test_a_suspended_client_keeps_its_tag_but_saves_nothing_up() -> None:
    queue = queue_of(*[Work("a", 10) for _ in range(9)], *[Work("b", 10) for _ in range(9)])
    for _ in range(4):
        item = queue.first(lambda item: item.client == "b")
        assert item is not None
        queue.serve(item)
    assert len(queue) == 14
    queue.resume("a")
    queue.resume("unknown")
    assert clients(serve(queue, 6)) == "ababab"


def test_clients_that_left_are_forgotten() -> None:
    """10,000 clients come once, or come and leave, next to one that always waits; then another does."""
    queue = queue_of(*[Work("always", 1) for _ in range(30_000)])
    for number in range(10_000):
        queue.add(Work(str(number), 1))
        leaver = Work(f"-{number}", 10**6)
        queue.add(leaver)
        queue.remove(leaver)
        serve(queue, 2)
    for _ in range(2000):
        queue.add(leaver)
        queue.remove(leaver)
    assert len(queue._clients) < 200
    assert len(queue._heap) < 1000
    assert clients(serve(queue)) == "always" * 20_000
    assert (len(queue), len(queue._clients), len(queue._heap)) == (0, 0, 0)
