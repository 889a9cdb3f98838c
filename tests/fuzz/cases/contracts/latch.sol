// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Two steps in order: a round hundred arms the latch, a round ten opens it then.
contract Latch {
    bool private armed;
    bool private open;

    event Seen(bool armed, bool open);

    function arm(int256 code) external {
        if (code % 100 == 0) armed = true;
    }

    function release(int256 code) external {
        if (armed && code % 10 == 0) open = true;
    }

    function echidna_stays_shut() external returns (bool) {
        emit Seen(armed, open);
        return !open;
    }

    function echidna_nothing_to_see() external pure returns (bool) {
        return true;
    }

    function echidna_revert_refuses() external pure returns (bool) {
        revert("as it should");
    }
}
