// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

contract Lamp {
    bool public lit = true;

    function putOut() external {
        lit = false;
    }
}

/// The fault is in a contract that this one made, and only a direct call to that one shows it.
contract House {
    Lamp public lamp = new Lamp();

    function echidna_lit() external view returns (bool) {
        return lamp.lit();
    }
}
