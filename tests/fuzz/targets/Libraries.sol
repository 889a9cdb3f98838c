// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

library Halves {
    function half(uint256 value) external pure returns (uint256) {
        return value / 2;
    }
}

library Quarters {
    function quarter(uint256 value) external pure returns (uint256) {
        return Halves.half(Halves.half(value));
    }
}

contract User {
    function use(uint256 value) external pure returns (uint256) {
        return Quarters.quarter(value);
    }
}

contract Spread {
    function sum(uint256 turns) external pure returns (uint256 total) {
        for (
            uint256 i = 0;
            i < turns;
            i++
        ) {
            total += i;
        }
    }
}
