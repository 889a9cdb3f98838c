// SPDX-License-Identifier: MIT
pragma solidity >=0.5.0;

/// Assertions that log and set a flag, as the library of that name has them.
contract DSTest {
    event log(string);
    event log_named_address(string key, address val);
    event log_named_bytes32(string key, bytes32 val);
    event log_named_int(string key, int256 val);
    event log_named_uint(string key, uint256 val);
    event log_named_bytes(string key, bytes val);
    event log_named_string(string key, string val);
    event log_named_decimal_uint(string key, uint256 val, uint256 decimals);
    event log_named_decimal_int(string key, int256 val, uint256 decimals);

    bool public IS_TEST = true;
    bool private _failed;
    address constant HEVM_ADDRESS = address(uint160(uint256(keccak256("hevm cheat code"))));

    function failed() public returns (bool) {
        if (_failed) return true;
        (, bytes memory said) = HEVM_ADDRESS.call(
            abi.encodeWithSignature("load(address,bytes32)", HEVM_ADDRESS, bytes32("failed"))
        );
        return abi.decode(said, (bool));
    }

    function fail() internal virtual {
        (bool ok,) = HEVM_ADDRESS.call(
            abi.encodeWithSignature("store(address,bytes32,bytes32)", HEVM_ADDRESS, bytes32("failed"), bytes32(uint256(1)))
        );
        ok;
        _failed = true;
    }

    function check(bool holds, string memory what) private {
        if (!holds) { emit log(what); fail(); }
    }

    function note(bool holds, string memory why) private {
        if (!holds) { emit log_named_string("Error", why); fail(); }
    }

    function assertTrue(bool a) internal { check(a, "Error: Assertion Failed"); }
    function assertTrue(bool a, string memory why) internal { note(a, why); }
    function assertEq(address a, address b) internal { check(a == b, "Error: a == b not satisfied [address]"); }
    function assertEq(address a, address b, string memory why) internal { note(a == b, why); }
    function assertEq(bytes32 a, bytes32 b) internal { check(a == b, "Error: a == b not satisfied [bytes32]"); }
    function assertEq(bytes32 a, bytes32 b, string memory why) internal { note(a == b, why); }
    function assertEq(int256 a, int256 b) internal { check(a == b, "Error: a == b not satisfied [int]"); }
    function assertEq(int256 a, int256 b, string memory why) internal { note(a == b, why); }
    function assertEq(uint256 a, uint256 b) internal { check(a == b, "Error: a == b not satisfied [uint]"); }
    function assertEq(uint256 a, uint256 b, string memory why) internal { note(a == b, why); }
    function assertEq(string memory a, string memory b) internal { check(keccak256(bytes(a)) == keccak256(bytes(b)), "Error: a == b not satisfied [string]"); }
    function assertEq0(bytes memory a, bytes memory b) internal { check(keccak256(a) == keccak256(b), "Error: a == b not satisfied [bytes]"); }
    function assertGt(uint256 a, uint256 b) internal { check(a > b, "Error: a > b not satisfied [uint]"); }
    function assertGe(uint256 a, uint256 b) internal { check(a >= b, "Error: a >= b not satisfied [uint]"); }
    function assertLt(uint256 a, uint256 b) internal { check(a < b, "Error: a < b not satisfied [uint]"); }
    function assertLe(uint256 a, uint256 b) internal { check(a <= b, "Error: a <= b not satisfied [uint]"); }
    function assertGt(int256 a, int256 b) internal { check(a > b, "Error: a > b not satisfied [int]"); }
    function assertGe(int256 a, int256 b) internal { check(a >= b, "Error: a >= b not satisfied [int]"); }
    function assertLt(int256 a, int256 b) internal { check(a < b, "Error: a < b not satisfied [int]"); }
    function assertLe(int256 a, int256 b) internal { check(a <= b, "Error: a <= b not satisfied [int]"); }
}
