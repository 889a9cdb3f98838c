// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Transient storage is empty again in the next transaction, and holds within one.
contract Fleeting {
    uint256 private first;
    uint256 private second;

    function stain() external {
        uint256 before;
        uint256 later;
        assembly {
            before := tload(7)
            tstore(7, 99)
            later := tload(7)
        }
        require(before == 0 && later == 99);
        first = 1;
    }

    function inspect() external {
        uint256 left;
        assembly {
            left := tload(7)
        }
        require(first == 1 && left == 0);
        second = 2;
    }

    function echidna_not_inspected() external view returns (bool) {
        return second != 2;
    }
}
