// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Shares of a common pot. One division rounds the wrong way: find out which with
/// `tracedesk fuzz run examples/vault/Vault.sol --contract VaultTest`.
contract Vault {
    mapping(address => uint256) public shares;
    uint256 public totalShares;
    uint256 public totalAssets;

    function deposit() public payable {
        uint256 minted = totalShares == 0 ? msg.value : msg.value * totalShares / totalAssets;
        shares[msg.sender] += minted;
        totalShares += minted;
        totalAssets += msg.value;
    }

    /// Interest, for all who hold shares.
    function earn() public payable {
        require(totalShares > 0, "nobody is invested");
        totalAssets += msg.value;
    }

    function withdraw(uint256 assets) public virtual {
        uint256 burned = assets * totalShares / totalAssets;
        shares[msg.sender] -= burned;
        totalShares -= burned;
        totalAssets -= assets;
        (bool paid,) = msg.sender.call{value: assets}("");
        require(paid, "the payment failed");
    }
}

/// Whoever leaves must not make the shares of those who stay worth less.
contract VaultTest is Vault {
    bool private diluted;

    function withdraw(uint256 assets) public override {
        (uint256 pot, uint256 parts) = (totalAssets, totalShares);
        super.withdraw(assets);
        if (totalShares > 0 && totalAssets * parts < pot * totalShares) diluted = true;
    }

    function echidna_leaving_dilutes_nobody() public view returns (bool) {
        return !diluted;
    }
}
