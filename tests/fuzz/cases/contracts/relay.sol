// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Three calls in a row: give a value, hand it on, look at it.
contract Relay {
    int256 private mine;
    int256 private yours;
    bool private matched;

    function give(int256 value) external {
        yours = value;
    }

    function hand() external {
        mine = yours;
    }

    function bump() external {
        unchecked {
            mine++;
        }
    }

    function look() external returns (bool) {
        if (mine == 77) matched = true;
        return matched;
    }

    function echidna_unmatched() external view returns (bool) {
        return !matched;
    }
}
