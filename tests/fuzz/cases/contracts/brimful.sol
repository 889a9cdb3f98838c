// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Anything added to a full word overflows.
contract Brimful {
    function pour(uint256 drops) external pure returns (uint256) {
        return type(uint256).max + drops;
    }
}
