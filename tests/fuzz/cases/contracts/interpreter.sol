// SPDX-License-Identifier: MIT
pragma solidity ^0.8.25;

/// Does what a program says, so that generated programs reach every corner of an EVM. What a step learns goes
/// into a digest, which the call returns; the last steps burn gas by it, so that gas tells digests apart too.
contract Interpreter {
    address[] private made;

    fallback(bytes calldata program) external payable returns (bytes memory) {
        return abi.encode(run(program));
    }

    receive() external payable {}

    function run(bytes calldata program) private returns (bytes32 digest) {
        uint256 at;
        while (at < program.length) {
            uint8 step = uint8(program[at]);
            uint256 one = word(program, at + 1);
            uint256 two = word(program, at + 33);
            uint256 size = uint256(uint16(bytes2(word16(program, at + 65))));
            bytes calldata data = slice(program, at + 67, size);
            at += 67 + size;
            uint256 learnt;
            if (step < 8) learnt = store(step, one, two);
            else if (step < 16) learnt = calculate(step, one, two);
            else if (step < 24) learnt = tell(step, one, two, data);
            else if (step < 32) learnt = create(step, one, two, data);
            else if (step < 48) learnt = visit(step, one, two, data);
            else if (step < 56) learnt = observe(one, two);
            else end(step, digest, data);
            digest = keccak256(abi.encode(digest, step, learnt));
        }
        for (uint256 i = uint256(digest) % 32; i > 0; i--) learnNothing();
    }

    function learnNothing() private pure {}

    function word(bytes calldata program, uint256 at) private pure returns (uint256 value) {
        assembly {
            if iszero(gt(add(at, 32), program.length)) {
                value := calldataload(add(program.offset, at))
            }
        }
    }

    function word16(bytes calldata program, uint256 at) private pure returns (bytes2) {
        return at + 2 <= program.length ? bytes2(program[at:at + 2]) : bytes2(0);
    }

    function slice(bytes calldata program, uint256 at, uint256 size) private pure returns (bytes calldata) {
        if (at > program.length) at = program.length;
        uint256 end_ = at + size > program.length ? program.length : at + size;
        return program[at:end_];
    }

    function store(uint8 step, uint256 one, uint256 two) private returns (uint256 learnt) {
        uint256 slot = 256 + (one % 16);
        assembly {
            switch and(step, 3)
            case 0 { sstore(slot, two) }
            case 1 { learnt := sload(slot) }
            case 2 { tstore(slot, two) }
            default { learnt := tload(slot) }
        }
    }

    function calculate(uint8 step, uint256 one, uint256 two) private pure returns (uint256 learnt) {
        assembly {
            switch and(step, 7)
            case 0 { learnt := add(sdiv(one, two), smod(two, one)) }
            case 1 { learnt := xor(addmod(one, two, 1000003), mulmod(one, two, not(6))) }
            case 2 { learnt := exp(one, and(two, 0xffff)) }
            case 3 { learnt := or(signextend(and(one, 31), two), byte(and(two, 31), one)) }
            case 4 { learnt := add(shl(and(one, 255), two), sar(and(two, 255), one)) }
            case 5 { learnt := or(or(lt(one, two), shl(1, slt(one, two))), shl(2, eq(one, two))) }
            case 6 { learnt := or(gt(one, two), shl(1, sgt(one, two))) }
            default { learnt := iszero(and(one, two)) }
        }
    }

    function tell(uint8 step, uint256 one, uint256 two, bytes calldata data) private returns (uint256 learnt) {
        bytes memory copy = data;
        assembly {
            let start := add(copy, 32)
            let size := mload(copy)
            switch and(step, 7)
            case 0 { log0(start, size) }
            case 1 { log1(start, size, one) }
            case 2 { log2(start, size, one, two) }
            case 3 { log3(start, size, one, two, 3) }
            case 4 { log4(start, size, one, two, 3, 4) }
            case 5 { learnt := keccak256(start, size) }
            case 6 {
                let free := mload(64)
                mcopy(add(free, and(one, 63)), start, size)
                learnt := keccak256(free, add(size, 64))
            }
            default { learnt := add(msize(), size) }
        }
    }

    function create(uint8 step, uint256 one, uint256 two, bytes calldata init) private returns (uint256) {
        bytes memory call_ = abi.encodeCall(this.make, (step % 2 == 0, one % 3, two % 4, init));
        (bool done, bytes memory said) = address(this).call{gas: gasleft() / 4}(call_);
        if (!done || said.length != 32) return said.length;
        address child = abi.decode(said, (address));
        if (child != address(0)) made.push(child);
        return uint160(child);
    }

    /// A call of its own, since a creation that fails may take all gas but a part.
    function make(bool isPlain, uint256 value, uint256 salt, bytes memory init) external returns (address child) {
        assembly {
            switch isPlain
            case 0 { child := create2(value, add(init, 32), mload(init), salt) }
            default { child := create(value, add(init, 32), mload(init)) }
        }
    }

    /// Someone to call: ourselves, a child, a precompile, or nobody.
    function who(uint256 choice) private view returns (address) {
        uint256 kind = choice % 8;
        uint256 rest = choice / 8;
        if (kind < 4 && made.length > 0) return made[rest % made.length];
        if (kind < 5) return address(this);
        if (kind < 7) return address(uint160(1 + (rest % 9)));
        return address(uint160(0xabc000 + (rest % 4)));
    }

    function visit(uint8 step, uint256 one, uint256 two, bytes calldata data) private returns (uint256) {
        address target = who(one);
        bytes memory input = data;
        uint256 value = two % 3;
        uint256 limit = gasleft() / 4;
        bool done;
        assembly {
            switch and(step, 3)
            case 0 { done := call(limit, target, value, add(input, 32), mload(input), 0, 0) }
            case 1 { done := delegatecall(limit, target, add(input, 32), mload(input), 0, 0) }
            case 2 { done := staticcall(limit, target, add(input, 32), mload(input), 0, 0) }
            default { done := callcode(limit, target, 0, add(input, 32), mload(input), 0, 0) }
        }
        bytes memory said;
        assembly {
            said := mload(64)
            mstore(64, add(said, add(returndatasize(), 63)))
            mstore(said, returndatasize())
            returndatacopy(add(said, 32), 0, returndatasize())
        }
        return uint256(keccak256(abi.encode(done, said)));
    }

    function observe(uint256 one, uint256 two) private view returns (uint256) {
        address other = who(one);
        bytes memory here = abi.encode(
            msg.sender, msg.value, address(this), address(this).balance, tx.origin, tx.gasprice
        );
        bytes memory chain = abi.encode(
            block.number, block.timestamp, block.chainid, block.coinbase, block.prevrandao, block.gaslimit
        );
        bytes memory there = abi.encode(other.balance, other.code.length, other.codehash, other.code, block.basefee);
        return uint256(keccak256(abi.encode(here, chain, there, two)));
    }

    function end(uint8 step, bytes32 digest, bytes calldata data) private {
        bytes memory copy = data;
        assembly {
            switch and(step, 7)
            case 0 { revert(add(copy, 32), mload(copy)) }
            case 1 { invalid() }
            case 2 {
                mstore(0, digest)
                return(0, 32)
            }
            case 3 { stop() }
            case 4 { return(0, 0) }
            case 5 { revert(0, 0) }
            case 6 { return(add(copy, 32), mload(copy)) }
            default { pop(mload(not(0))) }
        }
    }
}
