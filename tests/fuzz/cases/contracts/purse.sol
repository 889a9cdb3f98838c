// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// What the benchmark fuzzes: five functions of different weight, two properties that always hold.
contract Purse {
    mapping(address => uint256) private held;
    uint256 private total;
    uint256 private limit = 1000;
    bool private isClosed;

    event Moved(address indexed who, uint256 amount, bool inward);

    function setLimit(uint256 to) external {
        if (to > 0 && to < 1_000_000) {
            limit = to;
            isClosed = false;
        } else if (to % 7 == 0) {
            isClosed = true;
        }
    }

    function deposit(uint256 amount) external {
        require(!isClosed, "closed");
        uint256 part = amount % limit;
        held[msg.sender] += part;
        total += part;
        emit Moved(msg.sender, part, true);
    }

    function withdraw(uint256 amount) external {
        require(amount <= held[msg.sender], "too much");
        held[msg.sender] -= amount;
        total -= amount;
        emit Moved(msg.sender, amount, false);
    }

    function balanceOf(address who) external view returns (uint256) {
        return held[who];
    }

    function spin(uint256 rounds) external pure returns (uint256 sum) {
        for (uint256 i = 0; i < rounds % 1000; i++) {
            unchecked {
                sum = sum * 31 + i;
            }
        }
    }

    function echidna_limit_is_sane() external view returns (bool) {
        return limit > 0 && limit < 1_000_000;
    }

    function echidna_holds_no_more_than_all() external view returns (bool) {
        return held[msg.sender] <= total;
    }
}
