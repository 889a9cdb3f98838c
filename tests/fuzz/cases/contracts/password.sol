// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A string inside a struct, compared by its hash.
contract Password {
    struct Entry {
        uint256 door;
        string word;
        address who;
    }

    bool private locked = true;

    function enter(Entry calldata entry) external returns (uint256) {
        if (keccak256(bytes(entry.word)) == keccak256("mellon")) locked = false;
        return entry.door;
    }

    function echidna_locked() external view returns (bool) {
        return locked;
    }
}
