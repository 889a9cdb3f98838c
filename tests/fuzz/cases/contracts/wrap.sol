// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Arithmetic that must not wrap: panic 0x11, which counts only when it is asked for.
contract Wrap {
    function step() external pure returns (uint8) {
        uint8 last = 255;
        uint8 one = 1;
        return last + one;
    }
}
