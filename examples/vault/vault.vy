# pragma version ~=0.4.3
"""
Shares of a common pot. One division rounds the wrong way: find out which with
`tracedesk fuzz run examples/vault/vault.vy`.
"""

shares: public(HashMap[address, uint256])
totalShares: public(uint256)
totalAssets: public(uint256)
diluted: bool


@external
@payable
def deposit():
    minted: uint256 = msg.value
    if self.totalShares > 0:
        minted = msg.value * self.totalShares // self.totalAssets
    self.shares[msg.sender] += minted
    self.totalShares += minted
    self.totalAssets += msg.value


@external
@payable
def earn():
    """Interest, for all who hold shares."""
    assert self.totalShares > 0, "nobody is invested"
    self.totalAssets += msg.value


@external
def withdraw(assets: uint256):
    pot: uint256 = self.totalAssets
    parts: uint256 = self.totalShares
    burned: uint256 = assets * parts // pot
    self.shares[msg.sender] -= burned
    self.totalShares -= burned
    self.totalAssets -= assets
    # Whoever leaves must not make the shares of those who stay worth less.
    if self.totalShares > 0 and self.totalAssets * parts < pot * self.totalShares:
        self.diluted = True
    send(msg.sender, assets)


@external
@view
def echidna_leaving_dilutes_nobody() -> bool:
    return not self.diluted
