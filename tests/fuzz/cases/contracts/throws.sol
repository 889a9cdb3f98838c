// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A property that reverts is as false as one that says so.
contract Throws {
    int256 private depth;

    function dive(int256 to, address, address guide) external {
        require(guide != address(0), "nobody dives alone");
        depth = to;
    }

    function echidna_answers() external view returns (bool) {
        require(depth >= 0, "below the surface");
        return true;
    }
}
