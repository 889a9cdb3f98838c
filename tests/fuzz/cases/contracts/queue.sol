// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Several calls of one function, a switch that another call turns off again, then the check.
contract Queue {
    address[] private waiting;
    bool private strict;

    function join() external {
        waiting.push(msg.sender);
    }

    function beStrict() external {
        strict = true;
    }

    function beLax() external {
        strict = false;
    }

    function check() external view {
        if (strict && waiting.length >= 5) assert(false);
    }
}
