# pragma version ~=0.4.3
# A ledger with every kind of decision, € included.
import steps

initializes: steps

LIMIT: constant(uint256) = 10**18
owner: public(address)
total: public(uint256)
FLOOR: immutable(uint256)


@deploy
def __init__(least: uint256):
    self.owner = msg.sender
    FLOOR = least


@external
@payable
def add(amount: uint256) -> uint256:
    """Adds; if anything."""
    assert amount < LIMIT, "too much"
    assert amount != 7
    if amount > 5 and amount < 100:
        self.total += amount
    elif amount == 3:
        self.total -= 1
    else:
        self.total = self._half(amount)
    for turn: uint256 in range(3):
        self.total += turn
    steps.note(amount)
    self.total = amount if amount > 4 else FLOOR
    return self.total + 0


@external
def repeat(times: uint256):
    for turn: uint256 in range(times, bound=10):
        steps.note(turn)


@internal
def _half(amount: uint256) -> uint256:
    return amount // 2
