// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A word that begins like a stored one, and is another.
contract Prefix {
    bytes32 private known = "quince jam";
    bool private fooled;

    function offer(bytes32 word) external {
        if (word[0] == "q" && word[1] == "u" && word[2] == "i" && word != known) fooled = true;
    }

    function echidna_not_fooled() external view returns (bool) {
        return !fooled;
    }
}
