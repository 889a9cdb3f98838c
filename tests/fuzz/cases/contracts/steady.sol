// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A function that answers false is no property, and the property cannot fail.
contract Steady {
    function answer() external pure returns (bool) {
        return false;
    }

    function echidna_steady() external pure returns (bool) {
        return true;
    }
}
