// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A number close to the time of an earlier block.
contract AboutNow {
    uint256 private noted;
    bool private guessed;

    function note() external {
        if (noted == 0) noted = block.timestamp;
    }

    function guess(uint256 time) external {
        if (noted > 0 && time <= noted + 30 days && time >= noted - 30 days) guessed = true;
    }

    function echidna_unguessed() external view returns (bool) {
        return !guessed;
    }
}
