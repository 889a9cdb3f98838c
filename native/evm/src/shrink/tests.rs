use super::*;
use crate::abi::{parse_args, print_args, Type, Value};
use crate::tx::Function;

fn function(name: &str, inputs: &[&str]) -> Function {
    let inputs: Vec<Type> = inputs
        .iter()
        .map(|text| Type::parse(text).unwrap())
        .collect();
    Function {
        id: name.to_owned(),
        name: name.to_owned(),
        selector: [0; 4],
        inputs,
        outputs: Vec::new(),
        payable: true,
        view: false,
        raw: false,
    }
}

fn catalogue() -> Catalogue {
    Catalogue::new(vec![
        function("set", &["uint256"]),
        function("noise", &["int256", "bytes", "(address,string)[]"]),
        function("list", &["uint8[]", "bytes32", "string"]),
    ])
}

fn call(catalogue: &Catalogue, function: u32, args: &str) -> Tx {
    let args = parse_args(&catalogue.get(function).inputs, args).unwrap();
    Tx {
        from: Address::with_last_byte(0x20),
        value: U256::from(1_000),
        gas_price: U256::from(3),
        seconds: 100,
        blocks: 7,
        call: Call::Function { function, args },
        ..Tx::default()
    }
}

/// Fails as soon as the judge says so of a beginning of the sequence.
struct Oracle<J> {
    judge: J,
    runs: usize,
}

impl<J: FnMut(&[Tx]) -> bool> Executor for Oracle<J> {
    fn run(&mut self, sequence: &[Tx]) -> Trial {
        self.runs += 1;
        let needed = (1..=sequence.len()).find(|count| (self.judge)(&sequence[..*count]));
        Trial {
            holds: needed.is_some(),
            needed: needed.unwrap_or(0),
            reverted: sequence.iter().map(|tx| called(tx) == Some(1)).collect(),
            live: Vec::new(),
        }
    }
}

fn called(tx: &Tx) -> Option<u32> {
    match tx.call {
        Call::Function { function, .. } => Some(function),
        _ => None,
    }
}

fn number(tx: &Tx) -> U256 {
    match &tx.call {
        Call::Function { function: 0, args } => args[0].word().unwrap(),
        _ => U256::ZERO,
    }
}

fn text(sequence: &[Tx]) -> Vec<String> {
    sequence
        .iter()
        .map(|tx| match &tx.call {
            Call::Function { function, args } => format!("{function}({})", print_args(args)),
            _ => format!("wait {} {}", tx.seconds, tx.blocks),
        })
        .collect()
}

/// Simplest first, which is not the lowest.
fn senders() -> [Address; 3] {
    [0x30, 0x10, 0x20].map(Address::with_last_byte)
}

fn shrunk(sequence: Vec<Tx>, limit: usize, judge: impl FnMut(&[Tx]) -> bool) -> Shrunk {
    let mut oracle = Oracle { judge, runs: 0 };
    let catalogue = catalogue();
    let simplicity = Simplicity {
        catalogue: &catalogue,
        senders: &senders(),
    };
    let result = shrink(&mut oracle, sequence, simplicity, limit, &mut Rng::new(1));
    assert_eq!(result.executions, oracle.runs);
    assert!(result.executions <= limit);
    if limit > 0 {
        assert!(oracle.run(&result.sequence).holds, "the result fails alike");
    }
    result
}

fn noisy(important: &[(usize, &str)]) -> Vec<Tx> {
    let catalogue = catalogue();
    let noise = "-5, 0x0102, [(0x1234567890abcdef1234567890abcdef12345678, \"x\")]";
    let mut sequence = vec![call(&catalogue, 1, noise); 100];
    for (at, args) in important {
        sequence[*at] = call(&catalogue, 0, args);
    }
    sequence
}

#[test]
fn two_calls_out_of_a_hundred_remain_with_minimal_arguments() {
    let sequence = noisy(&[(17, "90000"), (63, "123456789012345678901234567890")]);
    let result = shrunk(sequence, 2_000, |txs| {
        let first = txs.iter().position(|tx| number(tx) > U256::from(1_000));
        first.is_some_and(|at| txs[at + 1..].iter().any(|tx| number(tx) >= U256::from(77)))
    });
    assert_eq!(text(&result.sequence), ["0(1001)", "0(77)"]);
    for tx in &result.sequence {
        assert_eq!((tx.seconds, tx.blocks), (0, 0));
        assert!(tx.value.is_zero() && tx.gas_price.is_zero());
    }
    assert!(result.executions < 400, "{}", result.executions);
}

#[test]
fn needed_time_moves_to_the_call_that_needs_it_and_gets_minimal() {
    let sequence = noisy(&[(80, "5")]);
    let result = shrunk(sequence, 3_000, |txs| {
        let waited: u64 = txs.iter().map(|tx| tx.seconds).sum();
        waited >= 2_500 && txs.iter().any(|tx| called(tx) == Some(0))
    });
    assert_eq!(text(&result.sequence), ["0(0)"]);
    assert_eq!(
        (result.sequence[0].seconds, result.sequence[0].blocks),
        (2_500, 0)
    );
}

#[test]
fn when_only_time_counts_one_wait_remains() {
    let result = shrunk(noisy(&[]), 3_000, |txs| {
        txs.iter().map(|tx| tx.blocks).sum::<u64>() >= 50
    });
    assert_eq!(text(&result.sequence), ["wait 0 50"]);
}

#[test]
fn no_empty_call_stands_before_the_one_that_fails() {
    let result = shrunk(noisy(&[(10, "4"), (90, "9")]), 5_000, |txs| {
        let at = txs.iter().position(|tx| number(tx) == U256::from(4));
        at.is_some_and(|at| {
            let waited: u64 = txs[at + 1..].iter().map(|tx| tx.seconds).sum();
            waited >= 1_000 && txs[at + 1..].iter().any(|tx| number(tx) == U256::from(9))
        })
    });
    assert_eq!(text(&result.sequence), ["0(4)", "0(9)"]);
    assert_eq!(result.sequence[1].seconds, 1_000);
}

#[test]
fn a_single_shrinks_in_every_argument() {
    let catalogue = catalogue();
    let address = "0x1234567890abcdef1234567890abcdef12345678";
    let other = "0x0000000000000000000000000000000000000001";
    let args =
        format!("-77, 0x0102030405060708, [({address}, \"abc\"), ({other}, \"needle in hay\")]");
    let result = shrunk(vec![call(&catalogue, 1, &args)], 2_000, |txs| {
        let Call::Function { args, .. } = &txs[0].call else {
            return false;
        };
        let negative = args[0].word().unwrap().bit(255);
        let long = matches!(&args[1], Value::Bytes(bytes) if bytes.len() >= 3);
        let Value::Array(items) = &args[2] else {
            return false;
        };
        let holds = |item: &Value| {
            matches!(item, Value::Tuple(pair)
            if matches!(&pair[1], Value::String(text) if text.windows(6).any(|w| w == b"needle")))
        };
        negative && long && items.iter().any(holds)
    });
    let zero = "0x0000000000000000000000000000000000000000";
    assert_eq!(
        text(&result.sequence),
        [format!("1(-1, 0x000000, [({zero}, \"needle\")])")]
    );
}

#[test]
fn lists_get_short_and_bytes_plain() {
    let catalogue = catalogue();
    let word = format!("0x{}", "ab".repeat(32));
    let args = format!("[9, 8, 200, 7, 250, 6], {word}, \"hello\"");
    let result = shrunk(vec![call(&catalogue, 2, &args)], 2_000, |txs| {
        let Call::Function { args, .. } = &txs[0].call else {
            return false;
        };
        let Value::Array(items) = &args[0] else {
            return false;
        };
        let large = items
            .iter()
            .filter(|v| v.word().unwrap() > U256::from(100))
            .count();
        let Value::Fixed(word, _) = &args[1] else {
            return false;
        };
        let Value::String(text) = &args[2] else {
            return false;
        };
        large >= 2 && word.starts_with(&[0xab, 0xab]) && text.len() >= 2
    });
    let word = format!("0xabab{}", "00".repeat(30));
    assert_eq!(
        text(&result.sequence),
        [format!("2([101, 101], {word}, \"aa\")")]
    );
}

#[test]
fn senders_become_the_first_of_the_campaign_unless_two_are_needed() {
    let catalogue = catalogue();
    let mut sequence = vec![call(&catalogue, 0, "1"); 3];
    for (tx, from) in sequence.iter_mut().zip([0x10, 0x20, 0x10]) {
        tx.from = Address::with_last_byte(from);
    }
    let [first, second, _] = senders();
    let any = shrunk(sequence.clone(), 500, |txs| txs.len() >= 3);
    assert!(any.sequence.iter().all(|tx| tx.from == first));
    let differ = shrunk(sequence.clone(), 500, |txs| {
        txs.len() >= 2 && txs[0].from != txs[1].from
    });
    let from: Vec<Address> = differ.sequence.iter().map(|tx| tx.from).collect();
    assert!(
        from == [first, second] || from == [second, first],
        "{from:?}"
    );
    let same_around = shrunk(sequence, 500, |txs| {
        txs.len() >= 3 && txs[0].from != txs[1].from && txs[0].from == txs[2].from
    });
    let from: Vec<Address> = same_around.sequence.iter().map(|tx| tx.from).collect();
    assert!(
        from == [first, second, first] || from == [second, first, second],
        "{from:?}"
    );
}

/// `set(x)` creates a contract that remembers x, at the next free address; a call of one that
/// remembers 7 fails.
struct Factory;

impl Executor for Factory {
    fn run(&mut self, sequence: &[Tx]) -> Trial {
        let mut trial = Trial::default();
        let mut kept = Vec::new();
        for (index, tx) in sequence.iter().enumerate() {
            trial.reverted.push(false);
            if called(tx) == Some(0) {
                kept.push(number(tx));
                trial.live.push(Live {
                    address: Address::with_last_byte(kept.len() as u8),
                    code: 0,
                    creator: Some(index),
                });
            } else if called(tx) == Some(1)
                && kept.get(usize::from(tx.to[19]).wrapping_sub(1)) == Some(&U256::from(7))
            {
                trial.holds = true;
                trial.needed = index + 1;
                break;
            }
        }
        trial
    }
}

#[test]
fn a_creation_is_left_out_though_the_later_ones_get_other_addresses() {
    let catalogue = catalogue();
    let mut sequence: Vec<Tx> = ["1", "2", "7", "3"]
        .map(|x| call(&catalogue, 0, x))
        .to_vec();
    sequence.push(Tx {
        to: Address::with_last_byte(3),
        ..call(&catalogue, 1, "0, 0x, []")
    });
    let simplicity = Simplicity {
        catalogue: &catalogue,
        senders: &senders(),
    };
    let result = shrink(&mut Factory, sequence, simplicity, 500, &mut Rng::new(1));
    assert_eq!(text(&result.sequence), ["0(7)", "1(0, 0x, [])"]);
    assert_eq!(result.sequence[1].to, Address::with_last_byte(1));
}

/// Has something else to do after some runs.
struct Busy<J>(Oracle<J>, usize);

impl<J: FnMut(&[Tx]) -> bool> Executor for Busy<J> {
    fn run(&mut self, sequence: &[Tx]) -> Trial {
        self.0.run(sequence)
    }

    fn is_interrupted(&self) -> bool {
        self.0.runs >= self.1
    }
}

#[test]
fn an_interrupted_shrink_keeps_what_it_has_and_can_go_on() {
    let judge = |txs: &[Tx]| txs.iter().any(|tx| number(tx) > U256::from(1_000));
    let catalogue = catalogue();
    let simplicity = Simplicity {
        catalogue: &catalogue,
        senders: &senders(),
    };
    let mut sequence = noisy(&[(50, "90000")]);
    let (mut pauses, mut lengths) = (0, vec![sequence.len()]);
    loop {
        let mut busy = Busy(Oracle { judge, runs: 0 }, 9);
        let result = shrink(&mut busy, sequence, simplicity, 500, &mut Rng::new(1));
        sequence = result.sequence;
        assert!(judge(&sequence) && result.executions <= 9);
        lengths.push(sequence.len());
        if !result.interrupted || pauses > 20 {
            break;
        }
        pauses += 1;
    }
    assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    assert_eq!(lengths.last(), Some(&1));
    assert!(pauses > 0);
}

#[test]
fn calls_that_only_go_together_are_dropped_together() {
    let catalogue = catalogue();
    let sequence: Vec<Tx> = (1..=6)
        .map(|n| call(&catalogue, 0, &n.to_string()))
        .collect();
    // 2 and 4 cancel each other: either alone prevents the failure.
    let result = shrunk(sequence, 2_000, |txs| {
        let has = |n: u64| txs.iter().any(|tx| number(tx) == U256::from(n));
        has(6) && has(2) == has(4)
    });
    assert_eq!(text(&result.sequence), ["0(6)"]);
}

#[test]
fn the_limit_counts_executions() {
    let sequence = noisy(&[(50, "90000")]);
    let fails = |txs: &[Tx]| txs.iter().any(|tx| number(tx) > U256::from(1_000));
    for limit in [0, 1, 2, 7, 20] {
        let result = shrunk(sequence.clone(), limit, fails);
        assert!(result.sequence.len() <= sequence.len());
    }
    assert_eq!(shrunk(sequence.clone(), 0, fails).sequence, sequence);
}

#[test]
fn waiting_joins_the_next_call_even_when_nothing_else_can_be_tried() {
    let mut sequence = vec![call(&catalogue(), 0, "5"); 3];
    sequence[0].call = Call::Wait;
    sequence[1].call = Call::Wait;
    let result = shrunk(sequence, 2, |txs| {
        txs.iter().any(|tx| called(tx) == Some(0))
    });
    assert_eq!(text(&result.sequence), ["0(5)"]);
    assert_eq!(
        (result.sequence[0].seconds, result.sequence[0].blocks),
        (300, 21)
    );
}

#[test]
fn a_sequence_that_does_not_fail_comes_back_unchanged() {
    let sequence = noisy(&[(1, "1")]);
    let mut oracle = Oracle {
        judge: |_: &[Tx]| false,
        runs: 0,
    };
    let catalogue = catalogue();
    let simplicity = Simplicity {
        catalogue: &catalogue,
        senders: &senders(),
    };
    let whole = sequence.clone();
    let result = shrink(&mut oracle, whole, simplicity, 100, &mut Rng::new(1));
    assert_eq!((result.sequence, result.executions), (sequence, 1));
}
