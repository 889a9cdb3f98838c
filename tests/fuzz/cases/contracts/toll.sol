// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The exact toll opens the gate.
contract Toll {
    uint256 private paid;
    uint256 private noise;

    function pay() external payable {
        if (msg.value == 217) paid = msg.value;
    }

    function rattle(uint256) external {
        noise += 1;
    }

    function echidna_unpaid() external view returns (bool) {
        return paid == 0;
    }
}
