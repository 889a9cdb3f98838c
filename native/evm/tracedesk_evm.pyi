"""Coverage-guided EVM fuzzing core. JSON text in and out; long calls release the GIL.

A transaction: {"to", "from", "value": "wei", "gas": int, "gas_price": "wei", "delay": [seconds, blocks],
"call": {"function": id, "name", "types", "args"} | {"function": id, "name", "data": "0x.."} (receive and
fallback) | {"data": "0x.."} | null (only time passes)}. On input
`name` and `types` may be left out where `function` is known; a hole {"hole": true} among the arguments is
filled by the fuzzer; `to`, `from`, `gas` default to the first target, the first sender and tx_gas.
ABI values: numbers as decimal strings, addresses and bytes as 0x-hex, booleans, strings, lists.
"""

class SpecError(ValueError):
    """The specification or an argument is malformed; the message names the field."""

class DeployError(RuntimeError):
    """A deployment reverted or halted; the message names the code and the reason."""

class UnsupportedError(DeployError):
    """A constructor, setUp() or another step of the deployment called cheatcodes that are not supported.

    The arguments are a message and the cheatcodes' signatures.
    """

class Campaign:
    """One campaign.

    The specification is a JSON object; what is left out has Echidna's default:

    - seed, workers, seq_len, test_limit (calls of all workers), shrink_limit (executions per failure),
      timeout_s, stop_on_fail, coverage, mode (shown, not interpreted), spec_id ("frontier" .. "osaka"),
      stateless, all_contracts, cheats, ffi, code_size
    - foundry (Foundry's rules; default: mode is "foundry"): pranks and expectations outlast setUp().
      internal_expect_revert: a frame may revert as it expects itself
    - env: {name: value}, the variables that cheatcodes see (default null: those cheatcodes are unsupported)
    - block: {timestamp, number, gas_limit, base_fee, coinbase, prevrandao, chain_id}
    - accounts: [{address, balance}], deployer, senders, property_sender
    - max_time_delay, max_block_delay, max_value, max_gas_price, tx_gas, property_gas, dict_freq, value_prob
    - dictionary: {ints, addresses, bytes, strings}
    - codes: [{id, name, path? (of its source; with it cheatcodes find the code by name), init, runtime,
      immutables: [[start, length]], events: ["Name(types)"],
      functions: [{id, name, types, outputs, selector?, payable, view} | {id, name, payable, receive: true}
      (empty calldata) | {id, name, payable, raw: true} (any calldata)],
      callable? (ids of the functions called on contracts of this code that are no targets; else all)}]
    - predeploy: [{address, runtime}]
    - deploy, in order: [{code, address?, args?, value?, from?} | {call: calldata, to, value?, from?}];
      where cheatcodes left the block is where every sequence begins
    - targets: [{code, address? (else where the code was deployed), functions? (else all)}]
    - tests: [{id, kind, contract (id or name of a code), name, function?, address?, panics?, expect?}]

    Kinds of tests. property: the function returns true (expect "revert": it reverts; expect "success": it
    does not, and sets no failed slot of DSTest). optimization: its int256 is raised. assertion: no call of
    the function (of any, without one) panics with a code in `panics` (default [1]), hits INVALID, emits
    AssertionFailed(..), fails a Foundry assertion (expect "success": and reverts) or sets DSTest's failed
    slot. overflow: no Panic(0x11). call: no call emits AssertionFailed(..) and its like.

    Gas is metered with refunds and floors but never paid for: balances change by value only. A sender that
    has less than the value of its transaction is credited with exactly what it lacks, in workers, execute,
    check and shrink alike, so that every value can be paid; when the call fails it is not.
    """

    def __init__(self, spec: str) -> None: ...
    def start(self) -> None:
        """Spawn the worker threads. Starting twice is a SpecError."""
    def stop(self) -> None:
        """Ask the workers to end after their current call, also while shrinking; returns at once."""
    def wait(self, timeout_s: float) -> bool:
        """Whether all workers have ended within the time."""
    def status(self) -> str:
        """A snapshot.

        {state: ready|running|stopping|ended, mode, seed, calls, test_limit, sequences, reverts, gas,
        shrink_executions, elapsed_s, coverage_points, corpus_sequences, corpus_transactions,
        since_new_coverage_s, events_dropped, targets, workers: [{id, calls, sequences, state, error, cpu_s}],
        tests: [{id, kind, name, contract, address, status: fuzzing|shrinking|solved|passed|error|unsupported,
        reason, value, sequence, shrunk_by, calls_at, unsupported}], failures: [{test, kind, reason, place,
        sequence, shrunk_by, calls_at, worker, others}], functions: [{id, calls, reverts, unsupported}],
        unsupported}

        `unsupported` lists signatures of cheatcodes (of an unknown one its selector) that were called and are
        not supported. Such a call ends its sequence and no test is judged by it, even if the contract caught
        the revert. A test with the status "unsupported" had such calls and no failure: a test of a function
        in calls of that function, every other test in any call or when it was asked.

        Of one test and place at most 8 failures are kept; `others` counts the further reasons seen there (up
        to 4096).
        """
    def events(self, limit: int) -> str:
        """Drain up to `limit` events: [{t_ns, worker, kind, data}]."""
    def coverage(self) -> str:
        """Counters of all workers and of the deployment, per code.

        [{code (null: unknown), kind: runtime|init, hash, size, blocks: [[pc, hits]] (entry and jump
        destinations), branches: [[pc, taken, not_taken]], halts: [[pc, reason, hits]]}]
        """
    def corpus(self, start: int, limit: int) -> str:
        """{total, sequences, transactions: [{index, sequence, position, tx, gas_used?, injected?}]}"""
    def find(self, query: str) -> str:
        """{"function"?, "sender"?, "min_value"?, "limit"?} -> {total, transactions}"""
    def load(self, sequences: str) -> str:
        """[[tx, ...], ...] -> {sequences, transactions}; the workers run them before anything else."""
    def inject(self, sequence: str, at: str | None = None) -> str:
        """[tx, ...] -> {id, workers, at: [calls | null, ...]}.

        Orders take effect between two sequences, and at once while a worker shrinks. `at` tells, per
        worker, after how many calls it obeys
        (null: it has ended). Given again as `at` to a campaign with the same seed and one worker, before its
        start, an order has the same effect.
        """
    def prioritize(self, functions: str, at: str | None = None) -> str:
        """The whole set of function ids, 90 % of newly generated calls; [] clears -> {at}"""
    def avoid(self, functions: str, at: str | None = None) -> str:
        """The whole set of function ids that are not called -> {at}"""
    def sample(self, function: str | None = None) -> str:
        """Look closely at a function ("": at none; None: go on).

        -> {function, calls, reverts, reasons: [{call, reason}], outputs: [{type, min, max}]}
        """
    def execute(self, sequence: str, trace: bool = False) -> str:
        """Run a sequence on a fresh copy of the base state, without side effects.

        {transactions: [{tx, status: success|revert|halt, reason, gas, return, block, place, assertion, logs,
        storage: [{address, slot, before, after}], balances: [{address, balance}], created, trace,
        unsupported}]}
        """
    def check(self, sequence: str) -> str:
        """All tests along a sequence, up to a call that needs an unsupported cheatcode.

        {failures: [{test, reason, position, place}], values: {id: value}, unsupported: [{test, names}]}
        """
    def shrink(self, test: str, sequence: str, limit: int) -> str:
        """{sequence, executions, reason}; a SpecError when the sequence does not fail the test.

        Senders become the first of the campaign, where that fails alike.
        """
    def counters(self) -> str:
        """[{worker, calls, sequences}]"""

def version() -> str:
    """Crate, engine and compiler."""

def step_cost(seconds: float) -> str:
    """Nanoseconds per EVM instruction -> {plain_ns (revm alone), uncovered_ns, covered_ns}"""

def abi_encode(types: str, values: str) -> bytes: ...
def abi_decode(types: str, data: bytes) -> str: ...
def parse_args(types: str, text: str) -> str: ...
def print_call(name: str, types: str, values: str) -> str: ...
