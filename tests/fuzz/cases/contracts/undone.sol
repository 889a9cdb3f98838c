// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// An event that says an assertion failed counts, also when the call is undone afterwards.
contract Undone {
    event AssertionFailed(string reason);

    function regret(uint256 weight) external {
        if (weight > 300) {
            emit AssertionFailed("too heavy");
            revert("undone");
        }
    }

    function never(uint256 weight) external {
        require(weight != weight, "unreachable");
        emit AssertionFailed("impossible");
    }
}
