// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;
contract Bank {
    uint256 public total; bytes public note; string public title; address public who; bool flag; int128 level; uint256[] list;
    struct P { uint8 a; bytes4 b; }
    P public p;
    function deposit(uint256 n) public payable { require(n < 1e30); total += n; if (n % 97 == 5) flag = true; }
    function say(string memory t, bytes memory b, bytes32 h) public { title = t; note = b; if (b.length > 3 && h != 0) who = msg.sender; }
    function move(int128 d, address to, bool up) public { if (up) level = d; who = to; require(d != 77); }
    function many(uint256[] memory xs, P memory q) public { list = xs; p = q; if (xs.length > 2) total = 1; }
    function tick() public { require(block.timestamp > 0); total += block.number; }
    function echidna_flag() public view returns (bool) { return !(flag && level < -5 && list.length > 1); }
}
