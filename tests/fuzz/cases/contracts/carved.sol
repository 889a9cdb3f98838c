// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Code that differs from what the compiler wrote, since a value was carved into it.
contract Carved {
    bytes32 public immutable mark = keccak256("carved");
    bool private intact = true;

    function strike() external {
        intact = false;
    }

    function echidna_intact() external view returns (bool) {
        return intact;
    }
}
