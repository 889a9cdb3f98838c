// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Refusals are no failed assertions.
contract Polite {
    error NotToday(uint256 day);

    function refuse(uint256) external pure {
        require(false);
    }

    function explain(uint256) external pure {
        require(false, "not today");
    }

    function decline(uint256 day) external pure {
        revert NotToday(day);
    }
}
