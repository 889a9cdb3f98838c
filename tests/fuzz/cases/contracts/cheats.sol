// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

interface Vm {
    function expectRevert(bytes4) external;
    function expectEmit() external;
    function mockCall(address, bytes calldata, bytes calldata) external;
    function snapshotState() external returns (uint256);
    function revertToState(uint256) external returns (bool);
    function readFile(string calldata) external returns (string memory);
    function assertEq(uint256, uint256) external pure;
}

error Refused();

contract Till {
    event Paid(uint256 amount);

    uint256 public total;

    function pay(uint256 amount) external {
        if (amount > 100) revert Refused();
        total += amount;
        emit Paid(amount);
    }
}

contract CheatsTest {
    Vm private constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
    Till private till;

    event Paid(uint256 amount);

    function setUp() public {
        till = new Till();
    }

    function testFuzz_revert_passes(uint256 amount) public {
        if (amount > 100) vm.expectRevert(Refused.selector);
        till.pay(amount);
    }

    function testFuzz_revert_fails(uint256 amount) public {
        vm.expectRevert(Refused.selector);
        till.pay(amount);
    }

    function test_emit_passes() public {
        vm.expectEmit();
        emit Paid(5);
        till.pay(5);
    }

    function test_emit_fails() public {
        vm.expectEmit();
        emit Paid(6);
        till.pay(5);
    }

    function test_mock_passes() public {
        vm.mockCall(address(till), abi.encodeCall(till.total, ()), abi.encode(9));
        vm.assertEq(till.total(), 9);
    }

    function test_snapshot_passes() public {
        uint256 id = vm.snapshotState();
        till.pay(5);
        require(vm.revertToState(id) && till.total() == 0);
    }

    function test_caught_assertion_passes() public view {
        try vm.assertEq(till.total(), 1) {} catch {}
    }

    function test_file_is_open() public {
        vm.readFile("a.txt");
    }

    function test_caught_file_is_open() public {
        try vm.readFile("a.txt") {
            revert("a file");
        } catch {}
    }
}
