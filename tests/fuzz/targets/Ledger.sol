// SPDX-License-Identifier: MIT
// A ledger with every kind of decision; the sign € above its code moves bytes away from characters.
pragma solidity ^0.8.20;

abstract contract Owned {
    address public owner = msg.sender;

    modifier onlyOwner() {
        require(msg.sender == owner, "not the owner");
        _;
    }
}

contract Ledger is Owned {
    error TooMuch(uint256 amount);

    uint256 public immutable cap;
    uint256 public total = 7;
    mapping(address => uint256) held;

    constructor(uint256 limit) {
        cap = limit;
        if (limit == 0) {
            revert TooMuch(limit);
        }
    }

    function add(uint256 amount) external returns (uint256) {
        require(amount < cap, "over the cap"); // if (this) were code
        if (amount > 5 && amount < 100) {
            held[msg.sender] += amount;
        } else if (amount == 4) {
            held[msg.sender] = 0;
        } else {
            revert TooMuch(amount);
        }
        string memory text = "require(false) ? if (x) {";
        total = amount > 50 ? amount : total;
        assert(bytes(text).length != total);
        return total;
    }

    function count(uint256 turns) public pure returns (uint256 sum) {
        for (uint256 i = 0; i < turns; i++) {
            if (i == 9) break;
            sum += i;
        }
        while (sum > 20) sum -= 3;
        do {
            sum++;
        } while (sum < 5);
    }

    function count(uint256 turns, uint256 more) external pure returns (uint256) {
        return count(turns) + more;
    }

    function reset() external onlyOwner {
        total = 0;
        assembly {
            if eq(callvalue(), 1) {
                sstore(1, 1)
            }
        }
    }

    function never() external pure returns (uint256) {
        return 1;
    }
}

contract Child is Ledger(50) {
    function twice() external returns (uint256) {
        total = total * 2;
        return total;
    }
}
