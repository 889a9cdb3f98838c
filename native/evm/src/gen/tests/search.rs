//! Whole searches against contracts written in Rust: what they compare and cover is fed back.

use super::*;

/// What one call of a simulated contract showed.
#[derive(Default)]
struct Trace {
    comparisons: Vec<Comparison>,
    covered: Vec<u64>,
    found: bool,
}

impl Trace {
    /// A branch: the comparison is logged, its outcome covered.
    fn branch(&mut self, site: u64, left: U256, relation: Relation, right: U256) -> bool {
        self.comparisons.push(Comparison {
            left,
            right,
            relation,
            site,
        });
        let outcome = match relation {
            Relation::Equal => left == right,
            Relation::Less | Relation::SignedLess => left < right,
            Relation::Greater | Relation::SignedGreater => left > right,
        };
        self.covered.push(site * 2 + u64::from(outcome));
        outcome
    }
}

fn words(tx: &Tx) -> Vec<U256> {
    match &tx.call {
        Call::Function { args, .. } => args.iter().filter_map(Value::word).collect(),
        _ => Vec::new(),
    }
}

/// Calls made until the contract's secret is found; the state begins anew with every sequence.
fn calls_until_found<S: Default>(
    functions: Vec<Function>,
    seed: u64,
    limit: usize,
    contract: impl Fn(&mut S, &Tx, &mut Trace),
) -> Option<usize> {
    let config = GenConfig {
        ints: Vec::new(),
        ..config()
    };
    let (mut generator, targets) = generator(functions, config, seed);
    let corpus = Corpus::new();
    let mut covered = HashSet::new();
    let mut calls = 0;
    while calls < limit {
        generator.begin(&corpus.snapshot());
        let mut state = S::default();
        let (mut sequence, mut points, mut length) = (Vec::new(), 0, 0);
        for position in 0..generator.planned() {
            let mut tx = Tx::default();
            generator.next(position, &targets, &mut tx);
            calls += 1;
            let mut trace = Trace::default();
            contract(&mut state, &tx, &mut trace);
            if trace.found {
                return Some(calls);
            }
            let new = trace
                .covered
                .iter()
                .filter(|point| covered.insert(**point))
                .count();
            generator.ran(false, new > 0, &trace.comparisons);
            sequence.push(tx);
            if new > 0 {
                (points, length) = (points + new as u32, position + 1);
            }
        }
        generator.finished(points, false);
        if points > 0 {
            sequence.truncate(length);
            corpus.add(Entry {
                gas_used: vec![None; length],
                transactions: sequence.into(),
                origin: Origin::Coverage,
                weight: points,
            });
        }
    }
    None
}

fn assert_found<S: Default>(
    functions: &[Function],
    limit: usize,
    contract: impl Fn(&mut S, &Tx, &mut Trace) + Copy,
) {
    for seed in 1..=5 {
        let calls = calls_until_found(functions.to_vec(), seed, limit, contract);
        assert!(calls.is_some(), "seed {seed}: not found in {limit} calls");
    }
}

#[test]
fn nested_conditions_on_several_arguments_are_solved_one_by_one() {
    let functions = [function("f", &["uint64", "uint64", "uint64", "int64"])];
    assert_found(&functions, 5_000, |_: &mut (), tx, trace| {
        let [a, b, c, d] = words(tx)[..] else { return };
        let mask = U256::from(u64::MAX);
        trace.found = trace.branch(1, b, Relation::Greater, U256::from(1_000_000))
            && trace.branch(2, a, Relation::Equal, (b + U256::from(7_777)) & mask)
            && trace.branch(3, c, Relation::Equal, (a * U256::from(3)) & mask)
            && trace.branch(4, d, Relation::Equal, U256::from(0x1337_c0de_u64))
            && trace.branch(5, b, Relation::Less, U256::from(1_000_100));
    });
}

#[test]
fn set_copy_and_check_are_put_in_order() {
    let functions = [
        function("set", &["uint256"]),
        function("copy", &[]),
        function("check", &[]),
    ];
    let secret = U256::from(0xfeed_face_dead_beef_u64);
    assert_found(
        &functions,
        5_000,
        move |state: &mut [U256; 2], tx, trace| match called(tx) {
            Some(0) => state[0] = words(tx)[0],
            Some(1) => {
                if trace.branch(1, state[0], Relation::Equal, secret) {
                    state[1] = state[0];
                }
            }
            _ => trace.found = trace.branch(2, state[1], Relation::Equal, secret),
        },
    );
}

#[test]
fn a_counter_that_needs_many_calls_in_a_row_is_driven_up() {
    let functions = [
        function("up", &[]),
        function("reset", &[]),
        function("other", &["uint256"]),
    ];
    assert_found(
        &functions,
        20_000,
        |count: &mut u64, tx, trace| match called(tx) {
            Some(0) => {
                *count += 1;
                trace.covered.push(1_000 + *count);
                trace.found = *count == 12;
            }
            Some(1) => *count = 0,
            _ => {}
        },
    );
}

#[test]
fn a_value_that_is_only_offset_from_an_argument_is_found() {
    let functions = [function("f", &["uint256"])];
    let (offset, secret) = (U256::from(987_654_321_u64), U256::from(1_u64 << 50));
    assert_found(&functions, 5_000, move |_: &mut (), tx, trace| {
        let Some(word) = words(tx).first().copied() else {
            return;
        };
        trace.found = trace.branch(1, word.wrapping_add(offset), Relation::Equal, secret);
    });
}
