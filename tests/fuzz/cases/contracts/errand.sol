// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Bytes that must be a call of one of the contract's own functions, which only it may call.
contract Errand {
    bool private ran;

    function deliver(address, uint256) external {
        require(msg.sender == address(this), "own errands only");
        ran = true;
    }

    function run(bytes calldata errand) external returns (bool done) {
        (done, ) = address(this).call(errand);
    }

    function echidna_stayed() external view returns (bool) {
        return !ran;
    }
}
