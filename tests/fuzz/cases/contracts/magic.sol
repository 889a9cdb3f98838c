// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Numbers that nobody guesses, but that stand in the code.
contract Magic {
    bool private small;
    bool private large;

    function say(int256 number) external {
        if (number == 2741) small = true;
        if (number == 8500000000000) small = false;
        if (number == 90817263544536271809918273645546372819) large = true;
    }

    function echidna_small() external view returns (bool) {
        return !small;
    }

    function echidna_large() external view returns (bool) {
        return !large;
    }
}
