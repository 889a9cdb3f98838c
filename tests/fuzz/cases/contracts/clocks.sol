// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Two clocks, stopped by two calls: exactly so many blocks, or seconds, between them.
contract Clocks {
    uint256 private startBlock;
    uint256 private startTime;
    uint256 private stopBlock;
    uint256 private stopTime;

    function start() external payable {
        (startBlock, startTime) = (block.number, block.timestamp);
    }

    function stop() external {
        (stopBlock, stopTime) = (block.number, block.timestamp);
    }

    function echidna_blocks() external view returns (bool) {
        unchecked {
            return stopBlock - startBlock != 37;
        }
    }

    function echidna_seconds() external view returns (bool) {
        unchecked {
            return stopTime - startTime != 58;
        }
    }
}
