"""Price-time matching of one symbol on whole numbers.

A half of the book keys its levels so that the best is the smallest: asks by price, bids by minus the
price. Both directions are then one code path. A cancelled order stays in its queue with nothing open
and is dropped when it is reached, and a level that was emptied stays in the heap likewise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from tracedesk.exchange.venue.orders import Prevention

BUY: Final = 1
SELL: Final = -1
ANY_PRICE: Final = 1 << 128
"""A limit that every level meets."""


class Resting:
    """An order as the book needs it."""

    __slots__ = ("id", "key", "open", "owner", "sign")

    hidden: int = 0
    """What an iceberg has not shown yet; it shows it in parts of `shown`."""
    shown: int = 0
    rank: int = 0
    """The place in the queue that was given last."""

    def __init__(self, id: int, sign: int, price: int, quantity: int, owner: Any = None) -> None:
        self.id = id
        self.sign = sign
        self.key = -price if sign > 0 else price
        self.open = quantity
        self.owner = owner

    @property
    def price(self) -> int:
        return -self.key if self.sign > 0 else self.key


class Queued(Resting):
    """An order whose place in the queue outlives the process, and which may be an iceberg."""

    __slots__ = ("hidden", "rank", "shown")

    def __init__(
        self, id: int, sign: int, price: int, quantity: int, owner: Any = None, shown: int = 0
    ) -> None:
        super().__init__(id, sign, price, quantity, owner)
        self.hidden = 0
        self.shown = shown
        self.rank = 0


Match = tuple[Resting, int, int]
"""The maker, the price, and the quantity."""
NO_MATCHES: Final[Sequence[Match]] = ()


class Prevented(NamedTuple):
    """Two orders of one owner met; what each lost by it is `None` where the mode spares it."""

    maker: Resting
    price: int
    taker_quantity: int | None
    maker_quantity: int | None


Step = Match | Prevented


class Level:
    """The orders at one price, oldest first."""

    __slots__ = ("dead", "quantity", "queue")

    def __init__(self) -> None:
        self.quantity = 0
        """What is shown: the sum of what is open."""
        self.queue: deque[Resting] = deque()
        self.dead = 0
        """Cancelled orders that still stand in the queue."""

    def oldest(self) -> Resting:
        """The order at the front of a level that is not empty."""
        queue = self.queue
        while not queue[0].open:
            queue.popleft()
            self.dead -= 1
        return queue[0]

    def youngest(self) -> Resting | None:
        """The order at the end of the queue, or `None` where there is none."""
        queue = self.queue
        while queue and not queue[-1].open:
            queue.pop()
            self.dead -= 1
        return queue[-1] if queue else None


_MANY_DEAD: Final = 64
_MANY_EMPTY: Final = 1024


class Half:
    """One side of the book."""

    __slots__ = ("emptied", "heap", "levels", "touched")

    def __init__(self) -> None:
        self.levels: dict[int, Level] = {}
        self.heap: list[int] = []
        """Every key of `levels`, once."""
        self.touched: set[int] = set()
        """Keys whose quantity may have changed since this was last cleared."""
        self.emptied = 0

    def best(self) -> int | None:
        """The key of the best level."""
        heap, levels = self.heap, self.levels
        while heap:
            key = heap[0]
            if levels[key].quantity:
                return key
            heappop(heap)
            del levels[key]
        return None

    def quantity(self, key: int) -> int:
        level = self.levels.get(key)
        return level.quantity if level else 0

    def keys(self, limit: int = ANY_PRICE) -> list[int]:
        """The keys of the levels that meet a limit, best first."""
        return sorted(key for key, level in self.levels.items() if level.quantity and key <= limit)

    def add(self, order: Resting) -> None:
        key = order.key
        level = self.levels.get(key)
        if level is None:
            level = self.levels[key] = Level()
            heappush(self.heap, key)
        level.queue.append(order)
        level.quantity += order.open
        self.touched.add(key)

    def remove(self, order: Resting) -> None:
        level = self.levels[order.key]
        level.quantity -= order.open
        level.dead += 1
        order.open = 0
        self.touched.add(order.key)
        if level.quantity == 0:
            level.queue.clear()
            level.dead = 0
            self._note_emptied()
        elif level.dead > _MANY_DEAD and level.dead * 2 > len(level.queue):
            level.queue = deque(each for each in level.queue if each.open)
            level.dead = 0

    def _note_emptied(self) -> None:
        """Forget emptied levels now and then: far from the touch no match ever reaches them."""
        self.emptied += 1
        if self.emptied > _MANY_EMPTY + len(self.heap) // 2:
            self.levels = {key: level for key, level in self.levels.items() if level.quantity}
            self.heap = list(self.levels)
            heapify(self.heap)
            self.emptied = 0


class Engine:
    """The book of one symbol."""

    __slots__ = ("asks", "bids", "rank")

    def __init__(self) -> None:
        self.bids = Half()
        self.asks = Half()
        self.rank = 0
        """Counts the places given in queues, so that they can be given again after a restart."""

    def half(self, sign: int) -> Half:
        """The side of the book that orders of a sign rest in."""
        return self.bids if sign > 0 else self.asks

    def limit(self, order: Resting) -> Sequence[Match]:
        """Match a limit order and let what is left of it rest."""
        key = order.key
        own, other = (self.bids, self.asks) if order.sign > 0 else (self.asks, self.bids)
        matches: Sequence[Match] = NO_MATCHES
        if other.heap and other.heap[0] <= -key:
            matches = self.take(order, -key)
            if not order.open:
                return matches
        level = own.levels.get(key)
        if level is None:
            level = own.levels[key] = Level()
            heappush(own.heap, key)
        level.queue.append(order)
        level.quantity += order.open
        own.touched.add(key)
        return matches

    def take(self, order: Resting, limit: int = ANY_PRICE) -> list[Match]:
        """Match an order with what meets the limit (a key of the other half), best and oldest first."""
        half = self.asks if order.sign > 0 else self.bids
        heap = half.heap
        levels = half.levels
        wanted = order.open
        matches: list[Match] = []
        while heap:
            key = heap[0]
            if key > limit:
                break
            level = levels[key]
            quantity = level.quantity
            if quantity:
                half.touched.add(key)
                price = key if key > 0 else -key
                queue = level.queue
                while quantity:
                    maker = queue[0]
                    have = maker.open
                    if have > wanted:
                        maker.open = have - wanted
                        level.quantity = quantity - wanted
                        matches.append((maker, price, wanted))
                        order.open = 0
                        return matches
                    queue.popleft()
                    if have:
                        matches.append((maker, price, have))
                        wanted -= have
                        quantity -= have
                        maker.open = 0
                        if maker.hidden:
                            quantity += self._refill(maker, queue)
                        if not wanted:
                            level.quantity = quantity
                            order.open = 0
                            return matches
                    else:
                        level.dead -= 1
            heappop(heap)
            del levels[key]
        order.open = wanted
        return matches

    def take_level(self, half: Half, key: int, quantity: int) -> list[Match]:
        """Match a quantity with the queue at one price, oldest first."""
        level = half.levels.get(key)
        matches: list[Match] = []
        while level is not None and quantity and level.quantity:
            maker = level.oldest()
            part = min(maker.open, quantity)
            matches.append((maker, abs(key), part))
            quantity -= part
            self._lessen(maker, part, level)
            half.touched.add(key)
        return matches

    def take_guarded(self, order: Resting, mode: Prevention, limit: int = ANY_PRICE) -> list[Step]:
        """Match an order that must not meet its own owner."""
        half = self.asks if order.sign > 0 else self.bids
        steps: list[Step] = []
        while order.open:
            key = half.best()
            if key is None or key > limit:
                break
            level = half.levels[key]
            maker = level.oldest()
            half.touched.add(key)
            if maker.owner is not order.owner:
                self._match(order, maker, level, steps)
            else:
                self._prevent(order, maker, mode, steps)
        return steps

    def _match(self, order: Resting, maker: Resting, level: Level, steps: list[Step]) -> None:
        quantity = min(maker.open, order.open)
        steps.append((maker, maker.price, quantity))
        order.open -= quantity
        self._lessen(maker, quantity, level)

    def _prevent(self, order: Resting, maker: Resting, mode: Prevention, steps: list[Step]) -> None:
        """Keep two orders of one owner apart."""
        whole = maker.open + maker.hidden
        if mode == "DECREMENT":
            lost = min(whole, order.open)
            steps.append(Prevented(maker, maker.price, lost, lost))
            order.open -= lost
            self.reduce(maker, lost)
            return
        ends_taker = mode in ("EXPIRE_TAKER", "EXPIRE_BOTH")
        ends_maker = mode in ("EXPIRE_MAKER", "EXPIRE_BOTH")
        taken = order.open if ends_taker else None
        steps.append(Prevented(maker, maker.price, taken, whole if ends_maker else None))
        if ends_maker:
            self.cancel(maker)
        if ends_taker:
            order.open = 0

    def _lessen(self, maker: Resting, quantity: int, level: Level) -> None:
        """Take from the oldest order of a level."""
        maker.open -= quantity
        level.quantity -= quantity
        if not maker.open:
            level.queue.popleft()
            if maker.hidden:
                level.quantity += self._refill(maker, level.queue)

    def _refill(self, maker: Resting, queue: deque[Resting]) -> int:
        """Show the next part of an iceberg, which joins the end of the queue."""
        maker.open = min(maker.shown, maker.hidden)
        maker.hidden -= maker.open
        self.rank += 1
        maker.rank = self.rank
        queue.append(maker)
        return maker.open

    def rest(self, order: Queued) -> None:
        """Let an order wait in the book, showing no more of it than it wants shown."""
        if order.shown:
            whole = order.open + order.hidden
            order.open = min(order.shown, whole)
            order.hidden = whole - order.open
        self.rank += 1
        order.rank = self.rank
        self.half(order.sign).add(order)

    def cancel(self, order: Resting) -> None:
        """Take an order out of the book."""
        if order.hidden:
            order.hidden = 0
        self.half(order.sign).remove(order)

    def reduce(self, order: Resting, quantity: int) -> None:
        """Make an order smaller in its place: first what it hides, then what it shows."""
        from_hidden = min(order.hidden, quantity)
        from_open = quantity - from_hidden
        if from_open == order.open:
            self.cancel(order)
            return
        if from_hidden:
            order.hidden -= from_hidden
        if from_open:
            self.reduce_shown(order, from_open)

    def hit(self, order: Queued, quantity: int) -> None:
        """Take from an order wherever it stands in its queue, as a trade outside this book does."""
        if quantity < order.open:
            self.reduce_shown(order, quantity)
        elif quantity == order.open + order.hidden:
            self.cancel(order)
        else:
            whole = order.open + order.hidden - quantity
            level = self.half(order.sign).levels[order.key]
            level.queue.remove(order)
            level.quantity -= order.open
            order.open, order.hidden = whole, 0
            self.rest(order)

    def reduce_shown(self, order: Resting, quantity: int) -> None:
        half = self.half(order.sign)
        order.open -= quantity
        half.levels[order.key].quantity -= quantity
        half.touched.add(order.key)

    def quantity_ahead(self, order: Resting) -> int:
        """The quantity shown before a resting order at its price."""
        ahead = 0
        for each in self.half(order.sign).levels[order.key].queue:
            if each is order:
                break
            ahead += each.open
        return ahead

    def crosses(self, order: Resting) -> bool:
        """Whether a limit order would match at once."""
        best = (self.asks if order.sign > 0 else self.bids).best()
        return best is not None and best <= -order.key

    def foresee(
        self, sign: int, wanted: int, limit: int = ANY_PRICE, owner: Any = None, mode: Prevention = "NONE"
    ) -> Iterator[tuple[int, int]]:
        """The prices and quantities that an order would trade, without trading."""
        half = self.asks if sign > 0 else self.bids
        for key in half.keys(limit):
            parts = deque((each, each.open, each.hidden) for each in half.levels[key].queue if each.open)
            while parts:
                maker, shown, hidden = parts.popleft()
                if mode != "NONE" and maker.owner is owner:
                    if mode in ("EXPIRE_TAKER", "EXPIRE_BOTH"):
                        return
                    wanted -= min(wanted, shown + hidden) if mode == "DECREMENT" else 0
                else:
                    taken = min(shown, wanted)
                    yield abs(key), taken
                    wanted -= taken
                    if hidden:
                        again = min(maker.shown, hidden)
                        parts.append((maker, again, hidden - again))
                if not wanted:
                    return

    def depth(self, limit: int | None = None) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Bids and asks as shown, best first."""
        return _shown(self.bids, limit), _shown(self.asks, limit)

    def touch(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """The best bid and ask with what is shown there."""
        return _best(self.bids), _best(self.asks)


def _shown(half: Half, limit: int | None) -> list[tuple[int, int]]:
    return [(abs(key), half.levels[key].quantity) for key in half.keys()[:limit]]


def _best(half: Half) -> tuple[int, int] | None:
    key = half.best()
    return None if key is None else (abs(key), half.levels[key].quantity)
