// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// No call ever changes anything here; only time passes.
contract Idle {
    uint256 private immutable opened = block.number;
    uint256 private immutable since = block.timestamp;

    function knock() external pure {
        revert("nobody is in");
    }

    function look() external view returns (uint256) {
        return block.timestamp - since;
    }

    function echidna_young() external view returns (bool) {
        return block.number < opened + 200_000;
    }

    function echidna_early() external view returns (bool) {
        return block.timestamp < since + 30 days;
    }
}
