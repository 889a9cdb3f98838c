// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

interface Vm {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    struct PotentialRevert {
        address reverter;
        bool partialMatch;
        bytes revertData;
    }

    enum CallerMode {
        None,
        Broadcast,
        RecurrentBroadcast,
        Prank,
        RecurrentPrank
    }

    function expectRevert() external;
    function expectRevert(bytes4) external;
    function expectRevert(bytes calldata) external;
    function expectRevert(address) external;
    function expectRevert(bytes4, address) external;
    function expectRevert(bytes calldata, address) external;
    function expectRevert(uint64) external;
    function expectRevert(bytes4, uint64) external;
    function expectRevert(bytes calldata, uint64) external;
    function expectRevert(bytes4, address, uint64) external;
    function expectPartialRevert(bytes4) external;
    function expectPartialRevert(bytes4, address) external;
    function assumeNoRevert() external;
    function assumeNoRevert(PotentialRevert calldata) external;
    function expectEmit() external;
    function expectEmit(uint64) external;
    function expectEmit(address) external;
    function expectEmit(bool, bool, bool, bool) external;
    function expectEmit(bool, bool, bool, bool, address) external;
    function expectEmit(bool, bool, bool, bool, uint64) external;
    function expectEmitAnonymous() external;
    function expectEmitAnonymous(bool, bool, bool, bool, bool) external;
    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory);
    function expectCall(address, bytes calldata) external;
    function expectCall(address, bytes calldata, uint64) external;
    function expectCall(address, uint256, bytes calldata) external;
    function expectCall(address, uint256, uint64, bytes calldata) external;
    function expectCallMinGas(address, uint256, uint64, bytes calldata) external;
    function mockCall(address, bytes calldata, bytes calldata) external;
    function mockCall(address, bytes4, bytes calldata) external;
    function mockCall(address, uint256, bytes calldata, bytes calldata) external;
    function mockCalls(address, bytes calldata, bytes[] calldata) external;
    function mockCallRevert(address, bytes calldata, bytes calldata) external;
    function mockFunction(address, address, bytes calldata) external;
    function clearMockedCalls() external;
    function record() external;
    function accesses(address) external returns (bytes32[] memory, bytes32[] memory);
    function snapshotState() external returns (uint256);
    function snapshot() external returns (uint256);
    function revertToState(uint256) external returns (bool);
    function revertTo(uint256) external returns (bool);
    function revertToStateAndDelete(uint256) external returns (bool);
    function deleteStateSnapshot(uint256) external returns (bool);
    function deleteStateSnapshots() external;
    function chainId(uint256) external;
    function warp(uint256) external;
    function roll(uint256) external;
    function fee(uint256) external;
    function coinbase(address) external;
    function prevrandao(bytes32) external;
    function blobBaseFee(uint256) external;
    function blobhashes(bytes32[] calldata) external;
    function txGasPrice(uint256) external;
    function prank(address) external;
    function prank(address, address) external;
    function prank(address, bool) external;
    function startPrank(address) external;
    function startPrank(address, address) external;
    function stopPrank() external;
    function readCallers() external returns (CallerMode, address, address);
    function deal(address, uint256) external;
    function etch(address, bytes calldata) external;
    function store(address, bytes32, bytes32) external;
    function load(address, bytes32) external view returns (bytes32);
    function getNonce(address) external view returns (uint64);
    function setNonce(address, uint64) external;
    function setNonceUnsafe(address, uint64) external;
    function resetNonce(address) external;
    function label(address, string calldata) external;
    function getLabel(address) external view returns (string memory);
    function toString(uint256) external pure returns (string memory);
    function toString(int256) external pure returns (string memory);
    function toString(address) external pure returns (string memory);
    function toString(bytes calldata) external pure returns (string memory);
    function parseUint(string calldata) external pure returns (uint256);
    function parseInt(string calldata) external pure returns (int256);
    function parseBytes(string calldata) external pure returns (bytes memory);
    function parseAddress(string calldata) external pure returns (address);
    function parseBool(string calldata) external pure returns (bool);
    function split(string calldata, string calldata) external pure returns (string[] memory);
    function replace(string calldata, string calldata, string calldata) external pure returns (string memory);
    function indexOf(string calldata, string calldata) external pure returns (uint256);
    function toBase64(bytes calldata) external pure returns (string memory);
    function toUppercase(string calldata) external pure returns (string memory);
    function randomUint(uint256, uint256) external returns (uint256);
    function randomAddress() external returns (address);
    function sort(uint256[] calldata) external returns (uint256[] memory);
    function computeCreateAddress(address, uint256) external pure returns (address);
    function computeCreate2Address(bytes32, bytes32, address) external pure returns (address);
    function setEnv(string calldata, string calldata) external;
    function envUint(string calldata) external view returns (uint256);
    function envOr(string calldata, string calldata, uint256[] calldata) external view returns (uint256[] memory);
    function getCode(string calldata) external view returns (bytes memory);
    function getDeployedCode(string calldata) external view returns (bytes memory);
    function addr(uint256) external pure returns (address);
    function sign(uint256, bytes32) external pure returns (uint8, bytes32, bytes32);
    function signCompact(uint256, bytes32) external pure returns (bytes32, bytes32);
    function assertEq(uint256[] calldata, uint256[] calldata) external pure;
    function assertEq(string[] calldata, string[] calldata, string calldata) external pure;
    function assertNotEq(bytes calldata, bytes calldata) external pure;
    function assertEqDecimal(uint256, uint256, uint256) external pure;
    function assertEqDecimal(uint256, uint256, uint256, string calldata) external pure;
    function assertApproxEqAbs(int256, int256, uint256) external pure;
    function assertApproxEqRel(uint256, uint256, uint256) external pure;
    function assertApproxEqRel(int256, int256, uint256) external pure;
    function assertEq(uint256, uint256) external pure;
    function assertEq(uint256, uint256, string calldata) external pure;
    function assertEq(int256, int256) external pure;
    function assertEq(bool, bool) external pure;
    function assertEq(address, address) external pure;
    function assertEq(bytes32, bytes32) external pure;
    function assertEq(bytes32, bytes32, string calldata) external pure;
    function assertEq(string calldata, string calldata) external pure;
    function assertEq(bytes calldata, bytes calldata, string calldata) external pure;
    function assertEq(int256[] calldata, int256[] calldata) external pure;
    function assertEq(bool[] calldata, bool[] calldata) external pure;
    function assertEq(address[] calldata, address[] calldata) external pure;
    function assertEq(bytes32[] calldata, bytes32[] calldata) external pure;
    function assertEq(string[] calldata, string[] calldata) external pure;
    function assertEq(bytes[] calldata, bytes[] calldata, string calldata) external pure;
    function assertEqDecimal(int256, int256, uint256, string calldata) external pure;
    function assertNotEq(uint256, uint256) external pure;
    function assertNotEqDecimal(uint256, uint256, uint256) external pure;
    function assertLt(uint256, uint256) external pure;
    function assertLt(int256, int256) external pure;
    function assertLe(uint256, uint256) external pure;
    function assertGt(uint256, uint256) external pure;
    function assertGtDecimal(uint256, uint256, uint256) external pure;
    function assertGe(int256, int256, string calldata) external pure;
    function assertTrue(bool) external pure;
    function assertTrue(bool, string calldata) external pure;
    function assertFalse(bool) external pure;
    function assertFalse(bool, string calldata) external pure;
    function assertApproxEqAbs(uint256, uint256, uint256) external pure;
    function assertApproxEqAbsDecimal(int256, int256, uint256, uint256) external pure;
    function assertApproxEqRel(uint256, uint256, uint256, string calldata) external pure;
    function assertApproxEqRelDecimal(uint256, uint256, uint256, uint256, string calldata) external pure;
    function pauseGasMetering() external;
    function resumeGasMetering() external;
    function resetGasMetering() external;
    function assume(bool) external pure;
    function isContext(uint8) external view returns (bool);
    function _expectCheatcodeRevert(bytes calldata) external;
}

error Plain();
error With(uint256 code);

contract Target {
    event One(address indexed a, uint256 indexed b, uint256 data);
    event Two(uint256 data);
    event Hidden(uint256 data) anonymous;

    uint256 public number = 7;
    address public last;
    address public origin;

    constructor(bool bad) payable {
        if (bad) revert With(9);
    }

    receive() external payable {}

    function set(uint256 value) external payable returns (uint256) {
        number = value;
        last = msg.sender;
        origin = tx.origin;
        return value;
    }

    function plain() external pure {
        revert Plain();
    }

    function with(uint256 code) external pure returns (uint256) {
        revert With(code);
    }

    function text() external pure {
        revert("some text");
    }

    function bare() external pure {
        assembly {
            revert(0, 0)
        }
    }

    function halts() external pure {
        assembly {
            invalid()
        }
    }

    function deep(Target other) external view {
        other.plain();
    }

    function careful(Target other) external view returns (bool) {
        try other.plain() {
            return true;
        } catch {
            return false;
        }
    }

    function one(address a, uint256 b, uint256 data) external {
        emit One(a, b, data);
    }

    function both(uint256 data) external {
        emit One(msg.sender, data, data);
        emit Two(data);
    }

    function twice(uint256 data) external {
        emit Two(data);
        emit Two(data);
    }

    function hidden(uint256 data) external {
        emit Hidden(data);
    }

    function through(Target other, uint256 data) external {
        other.twice(data);
    }

    function sum(uint256 a, uint256 b) external pure returns (uint256) {
        return a + b;
    }
}

contract Other {
    uint256 public number;

    function set(uint256 value) external payable returns (uint256) {
        number = value * 2;
        return number;
    }
}

abstract contract Base {
    Vm internal constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
    Target internal target;
    Target internal second;

    event One(address indexed a, uint256 indexed b, uint256 data);
    event Two(uint256 data);
    event Hidden(uint256 data) anonymous;

    function setUp() public virtual {
        target = new Target(false);
        second = new Target(false);
    }

    function own() external pure {
        revert Plain();
    }

    function same(string memory a, string memory b) internal pure {
        require(keccak256(bytes(a)) == keccak256(bytes(b)), a);
    }
}

contract RevertsTest is Base {
    function test_any_passes() public {
        vm.expectRevert();
        target.plain();
    }

    function test_any_fails() public {
        vm.expectRevert();
        target.set(1);
    }

    function test_halt_passes() public {
        vm.expectRevert();
        target.halts();
    }

    function test_nothing_called_fails() public {
        vm.expectRevert();
    }

    function test_same_depth_fails() public {
        vm.expectRevert();
        revert Plain();
    }

    function test_after_call_ended_fails() public {
        vm.expectRevert();
        target.plain();
        target.plain();
    }

    function test_selector_passes() public {
        vm.expectRevert(Plain.selector);
        target.plain();
    }

    function test_selector_other_fails() public {
        vm.expectRevert(With.selector);
        target.plain();
    }

    function test_selector_of_arguments_fails() public {
        vm.expectRevert(With.selector);
        target.with(3);
    }

    function test_partial_passes() public {
        vm.expectPartialRevert(With.selector);
        require(target.with(3) == 0);
    }

    function test_partial_other_fails() public {
        vm.expectPartialRevert(Plain.selector);
        target.with(3);
    }

    function test_partial_reverter_passes() public {
        vm.expectPartialRevert(With.selector, address(target));
        target.with(3);
    }

    function test_data_passes() public {
        vm.expectRevert(abi.encodeWithSelector(With.selector, 3));
        target.with(3);
    }

    function test_data_other_fails() public {
        vm.expectRevert(abi.encodeWithSelector(With.selector, 4));
        target.with(3);
    }

    function test_text_passes() public {
        vm.expectRevert("some text");
        target.text();
    }

    function test_text_other_fails() public {
        vm.expectRevert("other text");
        target.text();
    }

    function test_text_encoded_passes() public {
        vm.expectRevert(abi.encodeWithSignature("Error(string)", "some text"));
        target.text();
    }

    function test_empty_data_passes() public {
        vm.expectRevert(bytes(""));
        target.bare();
    }

    function test_empty_data_fails() public {
        vm.expectRevert(bytes(""));
        target.plain();
    }

    function test_without_data_fails() public {
        vm.expectRevert("some text");
        target.bare();
    }

    function test_panic_passes() public {
        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x11));
        target.sum(type(uint256).max, 1);
    }

    function test_reverter_passes() public {
        vm.expectRevert(address(target));
        target.plain();
    }

    function test_reverter_other_fails() public {
        vm.expectRevert(address(second));
        target.plain();
    }

    function test_reverter_inner_passes() public {
        vm.expectRevert(Plain.selector, address(second));
        target.deep(second);
    }

    function test_reverter_outer_fails() public {
        vm.expectRevert(Plain.selector, address(target));
        target.deep(second);
    }

    function test_data_reverter_passes() public {
        vm.expectRevert(abi.encodeWithSelector(Plain.selector), address(target));
        target.plain();
    }

    function test_count_passes() public {
        vm.expectRevert(uint64(2));
        target.plain();
        target.with(1);
    }

    function test_count_fails() public {
        vm.expectRevert(uint64(2));
        target.plain();
    }

    function test_count_selector_passes() public {
        vm.expectRevert(Plain.selector, uint64(2));
        target.plain();
        target.plain();
    }

    function test_count_selector_fails() public {
        vm.expectRevert(Plain.selector, uint64(2));
        target.plain();
        target.with(1);
    }

    function test_count_reverter_passes() public {
        vm.expectRevert(Plain.selector, address(target), uint64(2));
        target.plain();
        target.plain();
    }

    function test_count_zero_passes() public {
        vm.expectRevert(uint64(0));
        target.set(1);
    }

    function test_count_zero_fails() public {
        vm.expectRevert(uint64(0));
        target.plain();
    }

    function test_create_passes() public {
        vm.expectRevert(abi.encodeWithSelector(With.selector, 9));
        new Target(true);
    }

    function test_create_fails() public {
        vm.expectRevert();
        new Target(false);
    }

    function test_own_function_passes() public {
        vm.expectRevert(Plain.selector);
        this.own();
    }

    function test_low_level_passes() public {
        vm.expectRevert(Plain.selector);
        (bool ok,) = address(target).call(abi.encodeCall(Target.plain, ()));
        require(ok);
    }

    function test_caught_inside_fails() public {
        vm.expectRevert();
        target.careful(second);
    }

    function test_prank_between_passes() public {
        vm.expectRevert(Plain.selector);
        vm.prank(address(1));
        target.plain();
    }

    function test_argument_call_first_fails() public {
        vm.expectRevert();
        target.with(target.number());
    }

    function test_second_expectation_fails() public {
        vm.expectRevert();
        vm.expectRevert();
        target.plain();
    }

    function test_state_is_undone_passes() public {
        vm.expectRevert();
        target.with(1);
        require(target.number() == 7);
    }

    function test_cheatcode_passes() public {
        vm._expectCheatcodeRevert("you must call another function prior to expecting a second revert");
        vm.expectRevert();
    }

    function test_assume_no_revert_passes() public {
        vm.assumeNoRevert();
        target.set(3);
    }

    function testFuzz_assume_no_revert_passes(uint256 a) public {
        vm.assumeNoRevert();
        require(target.sum(a, 2 ** 255) >= 2 ** 255);
    }

    function testFuzz_assume_other_revert_fails(uint256 a) public {
        vm.assumeNoRevert(Vm.PotentialRevert(address(0), false, abi.encodeWithSelector(Plain.selector)));
        target.with(a);
    }
}

contract EmitsTest is Base {
    function test_all_passes() public {
        vm.expectEmit();
        emit One(address(1), 2, 3);
        target.one(address(1), 2, 3);
    }

    function test_all_fails() public {
        vm.expectEmit();
        emit One(address(1), 2, 4);
        target.one(address(1), 2, 3);
    }

    function test_unchecked_data_passes() public {
        vm.expectEmit(true, true, true, false);
        emit One(address(1), 2, 4);
        target.one(address(1), 2, 3);
    }

    function test_unchecked_topic_passes() public {
        vm.expectEmit(false, true, true, true);
        emit One(address(9), 2, 3);
        target.one(address(1), 2, 3);
    }

    function test_checked_topic_fails() public {
        vm.expectEmit(true, true, true, true);
        emit One(address(9), 2, 3);
        target.one(address(1), 2, 3);
    }

    function test_emitter_passes() public {
        vm.expectEmit(address(target));
        emit Two(3);
        target.twice(3);
    }

    function test_emitter_fails() public {
        vm.expectEmit(address(second));
        emit Two(3);
        target.twice(3);
    }

    function test_emitter_inner_passes() public {
        vm.expectEmit(true, true, true, true, address(second));
        emit Two(3);
        target.through(second, 3);
    }

    function test_no_event_fails() public {
        vm.expectEmit();
        emit Two(3);
        target.set(3);
    }

    function test_no_call_fails() public {
        vm.expectEmit();
        emit Two(3);
    }

    function test_order_passes() public {
        vm.expectEmit();
        emit One(address(this), 5, 5);
        vm.expectEmit();
        emit Two(5);
        target.both(5);
    }

    function test_order_fails() public {
        vm.expectEmit();
        emit Two(5);
        vm.expectEmit();
        emit One(address(this), 5, 5);
        target.both(5);
    }

    function test_skips_others_passes() public {
        vm.expectEmit();
        emit Two(5);
        target.both(5);
    }

    function test_next_call_only_fails() public {
        vm.expectEmit();
        emit Two(5);
        target.set(5);
        target.both(5);
    }

    function test_static_call_between_passes() public {
        vm.expectEmit();
        emit Two(5);
        target.number();
        target.both(5);
    }

    function test_count_passes() public {
        vm.expectEmit(uint64(2));
        emit Two(5);
        target.twice(5);
    }

    function test_count_fails() public {
        vm.expectEmit(uint64(3));
        emit Two(5);
        target.twice(5);
    }

    function test_count_zero_passes() public {
        vm.expectEmit(uint64(0));
        emit Two(6);
        target.twice(5);
    }

    function test_count_zero_fails() public {
        vm.expectEmit(true, true, true, true, uint64(0));
        emit Two(5);
        target.twice(5);
    }

    function test_anonymous_passes() public {
        vm.expectEmitAnonymous();
        emit Hidden(5);
        target.hidden(5);
    }

    function test_anonymous_fails() public {
        vm.expectEmitAnonymous(true, true, true, true, true);
        emit Hidden(6);
        target.hidden(5);
    }

    function test_anonymous_as_named_fails() public {
        vm.expectEmit();
        emit Hidden(5);
        target.hidden(5);
    }

    function test_reverting_call_fails() public {
        vm.expectEmit();
        emit Two(5);
        try target.plain() {} catch {}
    }

    function test_in_constructor_passes() public {
        vm.expectEmit();
        emit Two(8);
        new Emitter(8);
    }

    function test_in_constructor_fails() public {
        vm.expectEmit();
        emit Two(9);
        new Emitter(8);
    }

    function test_recorded_passes() public {
        vm.recordLogs();
        target.both(5);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        require(logs.length == 2 && logs[0].topics.length == 3 && logs[0].emitter == address(target));
        require(abi.decode(logs[1].data, (uint256)) == 5 && logs[1].topics[0] == Two.selector);
        require(vm.getRecordedLogs().length == 0);
    }

    function test_recorded_fails() public {
        vm.recordLogs();
        target.both(5);
        require(vm.getRecordedLogs().length == 1);
    }
}

contract Emitter {
    event Two(uint256 data);

    constructor(uint256 data) {
        emit Two(data);
    }
}

contract CallsTest is Base {
    function test_call_passes() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)));
        target.set(3);
    }

    function test_call_fails() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)));
        target.set(4);
    }

    function test_call_by_selector_passes() public {
        vm.expectCall(address(target), abi.encodeWithSelector(Target.set.selector));
        target.set(4);
        target.set(5);
    }

    function test_call_twice_passes() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)));
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)));
        target.set(3);
        target.set(3);
    }

    function test_call_twice_fails() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)));
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)));
        target.set(3);
    }

    function test_call_count_passes() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)), 2);
        target.set(3);
        target.set(3);
    }

    function test_call_count_fails() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)), 1);
        target.set(3);
        target.set(3);
    }

    function test_call_never_passes() public {
        vm.expectCall(address(target), abi.encodeCall(Target.set, (3)), 0);
        target.set(4);
    }

    function test_call_value_passes() public {
        vm.expectCall(address(target), 5, abi.encodeCall(Target.set, (3)));
        target.set{value: 5}(3);
    }

    function test_call_value_fails() public {
        vm.expectCall(address(target), 5, abi.encodeCall(Target.set, (3)));
        target.set{value: 6}(3);
    }

    function test_call_gas_passes() public {
        vm.expectCall(address(target), 0, 90_000, abi.encodeCall(Target.set, (3)));
        target.set{gas: 90_000}(3);
    }

    function test_call_gas_fails() public {
        vm.expectCall(address(target), 0, 90_001, abi.encodeCall(Target.set, (3)));
        target.set{gas: 90_000}(3);
    }

    function test_call_least_gas_passes() public {
        vm.expectCallMinGas(address(target), 0, 80_000, abi.encodeCall(Target.set, (3)));
        target.set{gas: 90_000}(3);
    }

    function test_inner_call_passes() public {
        vm.expectCall(address(second), abi.encodeCall(Target.twice, (3)));
        target.through(second, 3);
    }

    function test_mock_passes() public {
        vm.mockCall(address(target), abi.encodeCall(Target.sum, (1, 2)), abi.encode(10));
        require(target.sum(1, 2) == 10 && target.sum(2, 2) == 4);
        vm.clearMockedCalls();
        require(target.sum(1, 2) == 3);
    }

    function test_mock_fails() public {
        vm.mockCall(address(target), abi.encodeCall(Target.sum, (1, 2)), abi.encode(10));
        require(target.sum(1, 2) == 3);
    }

    function test_mock_selector_passes() public {
        vm.mockCall(address(target), Target.sum.selector, abi.encode(10));
        require(target.sum(5, 6) == 10);
    }

    function test_mock_more_exact_wins_passes() public {
        vm.mockCall(address(target), abi.encodeWithSelector(Target.sum.selector), abi.encode(10));
        vm.mockCall(address(target), abi.encodeCall(Target.sum, (1, 2)), abi.encode(20));
        require(target.sum(1, 2) == 20 && target.sum(3, 4) == 10);
    }

    function test_mock_nobody_passes() public {
        vm.mockCall(address(0xbeef), abi.encodeCall(target.number, ()), abi.encode(11));
        require(Target(payable(address(0xbeef))).number() == 11);
    }

    function test_mock_value_passes() public {
        vm.mockCall(address(target), 5, abi.encodeCall(Target.set, (3)), abi.encode(1));
        require(target.set{value: 5}(3) == 1 && target.set(3) == 3 && address(target).balance == 5);
    }

    function test_mock_calls_passes() public {
        bytes[] memory answers = new bytes[](2);
        answers[0] = abi.encode(1);
        answers[1] = abi.encode(2);
        vm.mockCalls(address(target), abi.encodeCall(target.number, ()), answers);
        require(target.number() == 1 && target.number() == 2 && target.number() == 2);
    }

    function test_mock_revert_passes() public {
        vm.mockCallRevert(address(target), abi.encodeCall(target.number, ()), "mocked");
        vm.expectRevert("mocked");
        target.number();
    }

    function test_mock_function_passes() public {
        Other other = new Other();
        vm.mockFunction(address(target), address(other), abi.encodeWithSelector(Target.set.selector));
        require(target.set(4) == 8 && target.number() == 8);
    }

    function test_mock_and_expected_passes() public {
        vm.mockCall(address(target), abi.encodeCall(target.number, ()), abi.encode(1));
        vm.expectCall(address(target), abi.encodeCall(target.number, ()));
        target.number();
    }
}

contract StateTest is Base {
    function setUp() public override {
        super.setUp();
        vm.mockCall(address(0xaaaa), abi.encodeCall(target.number, ()), abi.encode(99));
        vm.chainId(77);
        vm.warp(1234);
    }

    function test_left_by_set_up_passes() public view {
        require(Target(payable(address(0xaaaa))).number() == 99);
        require(block.chainid == 77 && block.timestamp == 1234);
    }

    function test_accesses_passes() public {
        vm.record();
        target.number();
        target.set(3);
        (bytes32[] memory reads, bytes32[] memory writes) = vm.accesses(address(target));
        require(reads.length >= 2 && writes.length == 3 && reads[0] == bytes32(0) && writes[0] == bytes32(0));
    }

    function test_accesses_fails() public {
        vm.record();
        target.number();
        (, bytes32[] memory writes) = vm.accesses(address(target));
        require(writes.length == 1);
    }

    function test_snapshot_passes() public {
        target.set(10);
        uint256 id = vm.snapshotState();
        target.set(11);
        vm.deal(address(5), 6);
        vm.warp(99);
        vm.setNonce(address(5), 3);
        require(vm.revertToState(id));
        require(target.number() == 10 && address(5).balance == 0 && block.timestamp == 1234);
        require(vm.getNonce(address(5)) == 0);
        target.set(12);
        require(vm.revertToState(id) && target.number() == 10);
    }

    function test_snapshot_created_passes() public {
        uint256 id = vm.snapshot();
        Target fresh = new Target(false);
        fresh.set(4);
        require(vm.revertTo(id) && address(fresh).code.length == 0);
        require(address(new Target(false)) == address(fresh) && fresh.number() == 7);
    }

    function test_snapshot_deleted_passes() public {
        uint256 id = vm.snapshotState();
        target.set(10);
        require(vm.revertToStateAndDelete(id) && target.number() == 7 && !vm.revertToState(id));
        uint256 next = vm.snapshotState();
        require(vm.deleteStateSnapshot(next) && !vm.deleteStateSnapshot(next) && !vm.revertToState(next));
    }

    function test_snapshot_fails() public {
        uint256 id = vm.snapshotState();
        target.set(10);
        vm.revertToState(id);
        require(target.number() == 10);
    }

    function test_blobs_passes() public {
        bytes32[] memory hashes = new bytes32[](1);
        hashes[0] = bytes32(uint256(5));
        vm.blobhashes(hashes);
        require(blobhash(0) == hashes[0] && blobhash(1) == bytes32(0));
    }

    function test_blob_fee_passes() public {
        vm.blobBaseFee(20_000_000);
        require(block.blobbasefee == 54);
    }

    function test_blob_fee_as_given_fails() public {
        vm.blobBaseFee(10);
        require(block.blobbasefee == 10);
    }

    function test_gas_price_passes() public {
        vm.txGasPrice(11);
        require(tx.gasprice == 11);
    }

    function test_block_passes() public {
        vm.chainId(5);
        vm.roll(6);
        vm.fee(7);
        vm.coinbase(address(8));
        vm.prevrandao(bytes32(uint256(9)));
        require(block.chainid == 5 && block.number == 6 && block.basefee == 7 && block.coinbase == address(8));
        require(block.prevrandao == 9);
    }

    function test_nonce_passes() public {
        vm.setNonce(address(5), 9);
        require(vm.getNonce(address(5)) == 9);
        vm.setNonceUnsafe(address(5), 2);
        require(vm.getNonce(address(5)) == 2);
        vm.resetNonce(address(5));
        require(vm.getNonce(address(5)) == 0);
    }

    function test_nonce_back_fails() public {
        vm.setNonce(address(5), 9);
        vm.setNonce(address(5), 8);
    }

    function test_prank_passes() public {
        vm.prank(address(5));
        target.set(1);
        require(target.last() == address(5) && target.origin() == tx.origin);
        target.set(1);
        require(target.last() == address(this));
    }

    function test_prank_origin_passes() public {
        address real = tx.origin;
        vm.prank(address(5), address(6));
        target.set(1);
        require(target.last() == address(5) && target.origin() == address(6) && tx.origin == real);
    }

    function test_prank_started_passes() public {
        vm.startPrank(address(5), address(6));
        target.set(1);
        target.set(2);
        require(target.last() == address(5) && target.origin() == address(6));
        (Vm.CallerMode mode, address sender, address origin) = vm.readCallers();
        require(mode == Vm.CallerMode.RecurrentPrank && sender == address(5) && origin == address(6));
        vm.stopPrank();
        target.set(1);
        require(target.last() == address(this) && target.origin() == tx.origin);
    }

    function test_prank_twice_fails() public {
        vm.prank(address(5));
        vm.prank(address(6));
    }

    function test_prank_create_passes() public {
        vm.prank(address(5));
        Target made = new Target(false);
        require(address(made) == vm.computeCreateAddress(address(5), 0));
    }

    function test_prank_balance_passes() public {
        vm.deal(address(5), 3);
        vm.prank(address(5));
        target.set{value: 3}(1);
        require(address(5).balance == 0 && address(target).balance == 3);
    }

    function test_own_ether_passes() public {
        target.set{value: 1 ether}(1);
        require(address(this).balance > 1e27);
    }

    function test_label_passes() public {
        vm.label(address(5), "five");
        same(vm.getLabel(address(5)), "five");
    }
}

contract TextsTest is Base {
    function test_to_string_passes() public pure {
        same(vm.toString(uint256(12)), "12");
        same(vm.toString(int256(-12)), "-12");
        same(vm.toString(address(0xAB)), "0x00000000000000000000000000000000000000AB");
        same(vm.toString(hex"0a0b"), "0x0a0b");
    }

    function test_parse_passes() public pure {
        require(vm.parseUint("12") == 12 && vm.parseUint("0x0c") == 12 && vm.parseInt("-12") == -12);
        require(vm.parseBytes("0x0a0b").length == 2 && vm.parseBool("true"));
        require(vm.parseAddress("0x00000000000000000000000000000000000000aB") == address(0xab));
    }

    function test_parse_fails() public pure {
        vm.parseUint("twelve");
    }

    function test_texts_passes() public pure {
        same(vm.split("a,b,c", ",")[1], "b");
        same(vm.replace("abcabc", "b", "xx"), "axxcaxxc");
        require(vm.indexOf("abc", "c") == 2 && vm.indexOf("abc", "d") == type(uint256).max);
        same(vm.toBase64("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
        same(vm.toUppercase("abc"), "ABC");
    }

    function test_random_passes() public {
        for (uint256 i = 0; i < 20; i++) {
            uint256 drawn = vm.randomUint(3, 5);
            require(drawn >= 3 && drawn <= 5);
        }
        require(vm.randomAddress() != vm.randomAddress());
    }

    function test_sort_passes() public {
        uint256[] memory all = new uint256[](3);
        (all[0], all[1], all[2]) = (3, 1, 2);
        all = vm.sort(all);
        require(all[0] == 1 && all[1] == 2 && all[2] == 3);
    }

    function test_addresses_passes() public pure {
        bytes32 salt = bytes32(uint256(1));
        address made = vm.computeCreate2Address(salt, keccak256("code"), address(9));
        bytes32 hash = keccak256(abi.encodePacked(hex"ff", address(9), salt, keccak256("code")));
        require(made == address(uint160(uint256(hash))));
    }

    function test_env_passes() public {
        vm.setEnv("CHEATCODES_OF_OURS", "31");
        require(vm.envUint("CHEATCODES_OF_OURS") == 31);
        vm.setEnv("CHEATCODES_LIST_OF_OURS", "1, 2");
        uint256[] memory none = new uint256[](0);
        require(vm.envOr("CHEATCODES_LIST_OF_OURS", ",", none)[1] == 2);
    }

    function test_code_passes() public view {
        require(keccak256(vm.getCode("cheatcodes.sol:Other")) == keccak256(type(Other).creationCode));
        require(keccak256(vm.getDeployedCode("Other")) == keccak256(type(Other).runtimeCode));
    }

    function test_signature_passes() public pure {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(5, keccak256("text"));
        require(ecrecover(keccak256("text"), v, r, s) == vm.addr(5));
        (bytes32 first, bytes32 packed) = vm.signCompact(5, keccak256("text"));
        require(first == r && uint256(packed) == uint256(s) | (uint256(v - 27) << 255));
    }

    function test_lists_passes() public pure {
        vm.assertEq(new uint256[](2), new uint256[](2));
        vm.assertEq(new string[](2), new string[](2), "words");
        vm.assertNotEq(bytes("a"), bytes("b"));
    }

    function test_lists_fails() public pure {
        vm.assertEq(new uint256[](2), new uint256[](3));
    }

    function test_list_message_fails() public pure {
        vm.assertEq(new string[](1), new string[](2), "words");
    }

    function test_decimals_passes() public pure {
        vm.assertEqDecimal(uint256(1), 1, 96);
        vm.assertEqDecimal(uint256(1), 1, 18, "words");
    }

    function test_decimals_fails() public pure {
        vm.assertEqDecimal(uint256(1), 2, 18);
    }

    function test_near_passes() public pure {
        vm.assertApproxEqAbs(int256(-3), int256(2), 5);
        vm.assertApproxEqRel(uint256(101), uint256(100), 0.01e18);
        vm.assertApproxEqRel(int256(-101), int256(-100), 0.01e18);
        vm.assertApproxEqRel(uint256(0), uint256(0), 0);
    }

    function test_near_fails() public pure {
        vm.assertApproxEqAbs(int256(-3), int256(2), 4);
    }

    function test_near_by_share_fails() public pure {
        vm.assertApproxEqRel(uint256(102), uint256(100), 0.01e18);
    }

    function test_near_nothing_fails() public pure {
        vm.assertApproxEqRel(uint256(1), uint256(0), 1e18);
    }

    function test_caught_assertion_passes() public pure {
        try vm.assertEq(uint256(1), 2) {
            revert("held");
        } catch {}
    }

    function test_context_passes() public view {
        require(vm.isContext(0) && vm.isContext(1) && !vm.isContext(2) && !vm.isContext(5));
    }
}

contract Checks {
    Vm private constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    function numbers(uint256 a, uint256 b) external pure {
        vm.assertEq(a, b);
    }

    function said(uint256 a, uint256 b, string calldata why) external pure {
        vm.assertEq(a, b, why);
    }

    function integers(int256 a, int256 b) external pure {
        vm.assertEq(a, b);
    }

    function flags(bool a, bool b) external pure {
        vm.assertEq(a, b);
    }

    function addresses(address a, address b) external pure {
        vm.assertEq(a, b);
    }

    function words(bytes32 a, bytes32 b, string calldata why) external pure {
        vm.assertEq(a, b, why);
    }

    function texts(string calldata a, string calldata b) external pure {
        vm.assertEq(a, b);
    }

    function blobs(bytes calldata a, bytes calldata b, string calldata why) external pure {
        vm.assertEq(a, b, why);
    }

    function lists(uint256[] calldata a, uint256[] calldata b) external pure {
        vm.assertEq(a, b);
    }

    function integerLists(int256[] calldata a, int256[] calldata b) external pure {
        vm.assertEq(a, b);
    }

    function flagLists(bool[] calldata a, bool[] calldata b) external pure {
        vm.assertEq(a, b);
    }

    function addressLists(address[] calldata a, address[] calldata b) external pure {
        vm.assertEq(a, b);
    }

    function wordLists(bytes32[] calldata a, bytes32[] calldata b) external pure {
        vm.assertEq(a, b);
    }

    function textLists(string[] calldata a, string[] calldata b) external pure {
        vm.assertEq(a, b);
    }

    function blobLists(bytes[] calldata a, bytes[] calldata b, string calldata why) external pure {
        vm.assertEq(a, b, why);
    }

    function decimals(uint256 a, uint256 b, uint256 places) external pure {
        vm.assertEqDecimal(a, b, places);
    }

    function integerDecimals(int256 a, int256 b, uint256 places) external pure {
        vm.assertEqDecimal(a, b, places, "why");
    }

    function others(uint256 a, uint256 b) external pure {
        vm.assertNotEq(a, b);
    }

    function otherDecimals(uint256 a, uint256 b, uint256 places) external pure {
        vm.assertNotEqDecimal(a, b, places);
    }

    function less(int256 a, int256 b) external pure {
        vm.assertLt(a, b);
    }

    function atMost(uint256 a, uint256 b) external pure {
        vm.assertLe(a, b);
    }

    function more(uint256 a, uint256 b) external pure {
        vm.assertGt(a, b);
    }

    function moreDecimals(uint256 a, uint256 b, uint256 places) external pure {
        vm.assertGtDecimal(a, b, places);
    }

    function atLeast(int256 a, int256 b) external pure {
        vm.assertGe(a, b, "why");
    }

    function holds(bool flag) external pure {
        vm.assertTrue(flag);
    }

    function holdsSaid(bool flag) external pure {
        vm.assertTrue(flag, "why");
    }

    function lies(bool flag) external pure {
        vm.assertFalse(flag);
    }

    function liesSaid(bool flag) external pure {
        vm.assertFalse(flag, "why");
    }

    function near(uint256 a, uint256 b, uint256 delta) external pure {
        vm.assertApproxEqAbs(a, b, delta);
    }

    function nearDecimals(int256 a, int256 b, uint256 delta, uint256 places) external pure {
        vm.assertApproxEqAbsDecimal(a, b, delta, places);
    }

    function share(uint256 a, uint256 b, uint256 delta) external pure {
        vm.assertApproxEqRel(a, b, delta, "why");
    }

    function integerShare(int256 a, int256 b, uint256 delta) external pure {
        vm.assertApproxEqRel(a, b, delta);
    }

    function shareDecimals(uint256 a, uint256 b, uint256 delta, uint256 places) external pure {
        vm.assertApproxEqRelDecimal(a, b, delta, places, "why");
    }
}

contract MessagesTest is Base {
    Checks private checks;

    function setUp() public override {
        checks = new Checks();
    }

    function test_numbers_passes() public {
        vm.expectRevert(bytes("assertion failed: 1 != 2"));
        checks.numbers(1, 2);
        vm.expectRevert(bytes("why: 1 != 2"));
        checks.said(1, 2, "why");
        vm.expectRevert(bytes(": 1 != 2"));
        checks.said(1, 2, "");
        vm.expectRevert(bytes("assertion failed: -1 != 2"));
        checks.integers(-1, 2);
    }

    function test_numbers_fails() public {
        vm.expectRevert(bytes("assertion failed: 1 != 3"));
        checks.numbers(1, 2);
    }

    function test_words_passes() public {
        vm.expectRevert(bytes("assertion failed: true != false"));
        checks.flags(true, false);
        vm.expectRevert(
            bytes(
                "assertion failed: 0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2 != 0x0000000000000000000000000000000000000001"
            )
        );
        checks.addresses(0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2, address(1));
        vm.expectRevert(
            bytes(
                "why: 0x0100000000000000000000000000000000000000000000000000000000000000 != 0x0000000000000000000000000000000000000000000000000000000000000002"
            )
        );
        checks.words(bytes32(bytes1(0x01)), bytes32(uint256(2)), "why");
    }

    function test_blobs_passes() public {
        vm.expectRevert(bytes("assertion failed: one != two"));
        checks.texts("one", "two");
        vm.expectRevert(bytes("why: 0x01 != 0x"));
        checks.blobs(hex"01", "", "why");
    }

    function test_lists_passes() public {
        uint256[] memory numbers = new uint256[](2);
        numbers[0] = 7;
        vm.expectRevert(bytes("assertion failed: [7, 0] != []"));
        checks.lists(numbers, new uint256[](0));
        int256[] memory integers = new int256[](1);
        integers[0] = -7;
        vm.expectRevert(bytes("assertion failed: [-7] != [0]"));
        checks.integerLists(integers, new int256[](1));
        bool[] memory flags = new bool[](1);
        flags[0] = true;
        vm.expectRevert(bytes("assertion failed: [true] != [false]"));
        checks.flagLists(flags, new bool[](1));
        vm.expectRevert(bytes("assertion failed: [0x0000000000000000000000000000000000000000] != []"));
        checks.addressLists(new address[](1), new address[](0));
        vm.expectRevert(
            bytes("assertion failed: [0x0000000000000000000000000000000000000000000000000000000000000000] != []")
        );
        checks.wordLists(new bytes32[](1), new bytes32[](0));
        string[] memory texts = new string[](2);
        (texts[0], texts[1]) = ("a", "b");
        vm.expectRevert(bytes("assertion failed: [a, b] != [, ]"));
        checks.textLists(texts, new string[](2));
        bytes[] memory blobs = new bytes[](2);
        blobs[0] = hex"0a0b";
        vm.expectRevert(bytes("why: [0x0a0b, 0x] != [0x, 0x]"));
        checks.blobLists(blobs, new bytes[](2), "why");
    }

    function test_decimals_passes() public {
        vm.expectRevert(bytes("assertion failed: 1.500000000000000000 != 0.000000000000000002"));
        checks.decimals(1.5e18, 2, 18);
        vm.expectRevert(bytes("assertion failed: 1.0 != 2.0"));
        checks.decimals(1, 2, 0);
        vm.expectRevert(bytes("assertion failed: 1 != 2"));
        checks.decimals(1, 2, 78);
        vm.expectRevert(bytes("why: -1.50 != 0.02"));
        checks.integerDecimals(-150, 2, 2);
        vm.expectRevert(bytes("assertion failed: 0.05 == 0.05"));
        checks.otherDecimals(5, 5, 2);
        vm.expectRevert(bytes("assertion failed: 0.1 <= 0.2"));
        checks.moreDecimals(1, 2, 1);
    }

    function test_order_passes() public {
        vm.expectRevert(bytes("assertion failed: 5 == 5"));
        checks.others(5, 5);
        vm.expectRevert(bytes("assertion failed: 0 >= -1"));
        checks.less(0, -1);
        vm.expectRevert(bytes("assertion failed: 2 > 1"));
        checks.atMost(2, 1);
        vm.expectRevert(bytes("assertion failed: 1 <= 1"));
        checks.more(1, 1);
        vm.expectRevert(bytes("why: -2 < 1"));
        checks.atLeast(-2, 1);
    }

    function test_truth_passes() public {
        vm.expectRevert(bytes("assertion failed"));
        checks.holds(false);
        vm.expectRevert(bytes("why"));
        checks.holdsSaid(false);
        vm.expectRevert(bytes("assertion failed"));
        checks.lies(true);
        vm.expectRevert(bytes("why"));
        checks.liesSaid(true);
    }

    function test_near_passes() public {
        vm.expectRevert(bytes("assertion failed: 10 !~= 13 (max delta: 2, real delta: 3)"));
        checks.near(10, 13, 2);
        vm.expectRevert(bytes("assertion failed: -1.0 !~= 1.3 (max delta: 0.2, real delta: 2.3)"));
        checks.nearDecimals(-10, 13, 2, 1);
    }

    function test_share_passes() public {
        vm.expectRevert(bytes("why: 102 !~= 100 (max delta: 1.0000000000000000%, real delta: 2.0000000000000000%)"));
        checks.share(102, 100, 0.01e18);
        vm.expectRevert(bytes("why: 1 !~= 0 (max delta: 1.0000000000000000%, real delta: undefined)"));
        checks.share(1, 0, 0.01e18);
        vm.expectRevert(bytes("why: overflow in delta calculation"));
        checks.share(type(uint256).max, 1, 0.01e18);
        vm.expectRevert(
            bytes("assertion failed: -102 !~= -100 (max delta: 1.0000000000000000%, real delta: 2.0000000000000000%)")
        );
        checks.integerShare(-102, -100, 0.01e18);
        vm.expectRevert(bytes("why: 1.02 !~= 1.00 (max delta: 1.0000000000000000%, real delta: 2.0000000000000000%)"));
        checks.shareDecimals(102, 100, 0.01e18, 2);
    }
}

contract GasTest is Base {
    uint256 private kept;

    function burn() internal returns (uint256 used) {
        uint256 before = gasleft();
        for (uint256 i = 1; i < 100; i++) {
            kept = i;
        }
        used = before - gasleft();
    }

    function burnOutside() external returns (uint256) {
        return burn();
    }

    function test_counted_passes() public {
        require(burn() > 10_000);
    }

    function test_paused_passes() public {
        vm.pauseGasMetering();
        require(burn() == 0);
        vm.resumeGasMetering();
        require(burn() > 10_000);
    }

    function test_paused_fails() public {
        vm.pauseGasMetering();
        require(burn() > 0);
    }

    function test_paused_outside_passes() public {
        vm.pauseGasMetering();
        uint256 before = gasleft();
        require(this.burnOutside() == 0);
        require(before == gasleft());
        vm.resumeGasMetering();
        require(this.burnOutside() > 10_000);
    }

    function test_paused_inside_passes() public {
        uint256 before = gasleft();
        this.pauses();
        require(before - gasleft() < 20_000);
        require(burn() == 0);
    }

    function pauses() external {
        vm.pauseGasMetering();
        burn();
    }

    function test_resumed_inside_passes() public {
        vm.pauseGasMetering();
        this.resumes();
        require(burn() > 10_000);
    }

    function resumes() external {
        require(burn() == 0);
        vm.resumeGasMetering();
        require(burn() > 10_000);
    }

    function test_reset_passes() public {
        uint256 first = gasleft();
        burn();
        vm.resetGasMetering();
        require(gasleft() > first);
        require(burn() > 10_000);
    }

    function test_reset_fails() public {
        uint256 first = gasleft();
        burn();
        vm.resetGasMetering();
        require(gasleft() <= first);
    }

    function test_paused_create_passes() public {
        vm.pauseGasMetering();
        uint256 before = gasleft();
        new Target(false);
        require(before == gasleft());
    }

    function test_paused_revert_passes() public {
        vm.pauseGasMetering();
        uint256 before = gasleft();
        vm.expectRevert(Plain.selector);
        target.plain();
        require(before == gasleft());
    }

    function testFuzz_paused_passes(uint256 a) public {
        vm.pauseGasMetering();
        a = a % 8;
        uint256 before = gasleft();
        require(target.sum(a, 1) == a + 1);
        require(before == gasleft());
        vm.resumeGasMetering();
    }
}

contract AssumesTest is Base {
    function assumes(bool holds) external pure {
        vm.assume(holds);
        revert Plain();
    }

    function testFuzz_assume_unexpected_fails(uint256 a) public {
        vm.expectRevert(Plain.selector);
        this.assumes(a % 2 == 0);
    }

    function testFuzz_assume_at_the_same_depth_fails(uint256 a) public {
        vm.expectRevert();
        vm.assume(a % 2 == 0);
        target.plain();
    }

    function test_assume_expected_passes() public {
        vm.expectRevert();
        this.assumes(false);
    }

    function test_assume_text_passes() public {
        vm.expectRevert("FOUNDRY::ASSUME");
        this.assumes(false);
    }

    function test_assume_caught_passes() public {
        try this.assumes(false) {
            revert("held");
        } catch (bytes memory data) {
            require(keccak256(data) == keccak256("FOUNDRY::ASSUME"));
        }
    }

    function testFuzz_assume_passes(uint256 a) public view {
        vm.assume(a % 2 == 0);
        require(a % 2 == 0);
    }

    function testFuzz_assume_caught_fails(uint256 a) public {
        try this.assumes(a % 2 == 0) {} catch {}
        require(a % 2 == 0);
    }
}
