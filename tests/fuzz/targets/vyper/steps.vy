# What the ledger imports.
last: public(uint256)


@internal
def note(amount: uint256):
    if amount > 3:
        self.last = amount
