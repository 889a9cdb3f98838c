// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A struct as an argument.
contract Members {
    struct Member {
        uint256 shares;
        bool hasLeft;
        address proxy;
        uint256 since;
    }

    bool private complete = true;

    function admit(Member calldata member) external returns (uint256) {
        if (member.hasLeft) complete = false;
        return member.shares;
    }

    function echidna_complete() external view returns (bool) {
        return complete;
    }
}
