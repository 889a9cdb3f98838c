// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Two different words with the same short tag.
contract Tags {
    function tag(bytes32 word) private pure returns (uint96) {
        return uint96(uint256(word) >> 160);
    }

    function compare(bytes32 one, bytes32 other) external pure {
        require(one != other);
        assert(tag(one) != tag(other));
    }
}
