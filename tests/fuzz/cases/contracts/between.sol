// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The one number between two that stand in the code.
contract Between {
    uint256 private held;

    function hold(uint256 number) external {
        held = number;
    }

    function echidna_never_between() external view returns (bool) {
        return held <= 730114992837465501 || held >= 730114992837465503;
    }
}
