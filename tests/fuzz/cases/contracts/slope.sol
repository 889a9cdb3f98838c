// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The highest point lies just before a cliff.
contract Slope {
    int256 private place;

    function walk(int256 to) external {
        place = to;
    }

    function echidna_height() external view returns (int256) {
        return place > -5151 ? -place : int256(0);
    }
}
