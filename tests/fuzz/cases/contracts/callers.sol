// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Everyone must have signed: three senders, each with a call of their own.
contract Callers {
    mapping(address => bool) private hasSigned;
    uint256 private signatures;

    function sign() external {
        require(!hasSigned[msg.sender], "once each");
        hasSigned[msg.sender] = true;
        signatures += 1;
    }

    function echidna_someone_is_missing() external view returns (bool) {
        return signatures < 3;
    }
}
