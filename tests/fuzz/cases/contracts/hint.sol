// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A number that stands nowhere in the code, but that a function returns.
contract Hint {
    bool private solved;

    function secret(int256 salt) private pure returns (int256) {
        int256 part = 24681357;
        return part * 31 + salt;
    }

    function hint() external pure returns (int256) {
        return secret(1009);
    }

    function solve(int256 number) external {
        if (number == secret(1009)) solved = true;
    }

    function echidna_unsolved() external view returns (bool) {
        return !solved;
    }
}
