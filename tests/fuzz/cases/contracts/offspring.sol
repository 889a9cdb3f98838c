// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

contract Child {}

/// Addresses that exist only since this contract made them: one at the start, one on demand.
contract Offspring {
    Child private elder = new Child();
    Child private younger;
    bool private metElder;
    bool private metYounger;

    function bear() external {
        if (address(younger) == address(0)) younger = new Child();
    }

    function meet(address someone) external {
        if (someone == address(elder)) metElder = true;
        if (someone == address(younger) && someone != address(0)) metYounger = true;
    }

    function echidna_has_not_met_both() external view returns (bool) {
        return !metElder || !metYounger;
    }
}
