mod search;
mod substitution;

use std::collections::HashSet;

use super::*;
use crate::abi::{decode, encode};
use crate::corpus::{Corpus, Entry, Origin};
use crate::tx::{Function, Relation};

fn function(name: &str, inputs: &[&str]) -> Function {
    let inputs: Vec<Type> = inputs
        .iter()
        .map(|text| Type::parse(text).unwrap())
        .collect();
    Function {
        id: name.to_owned(),
        name: name.to_owned(),
        selector: crate::abi::selector(name, &inputs),
        inputs,
        outputs: Vec::new(),
        payable: name.starts_with("pay"),
        view: false,
        raw: false,
    }
}

fn config() -> GenConfig {
    GenConfig {
        seq_len: 20,
        senders: (1..=3).map(|n| Address::with_last_byte(n * 16)).collect(),
        max_time_delay: 604_800,
        max_block_delay: 60_480,
        max_value: U256::from(10).pow(U256::from(20)),
        max_gas_price: U256::ZERO,
        tx_gas: 12_500_000,
        dict_freq: 0.4,
        value_prob: 0.5,
        stateless: false,
        ints: vec![U256::from(123_456_789_u64)],
        addresses: vec![Address::repeat_byte(0xab)],
        bytes: vec![b"magic".to_vec()],
        strings: vec!["needle".to_owned()],
    }
}

fn target(functions: u32) -> Vec<Target> {
    vec![Target {
        address: Address::repeat_byte(1),
        functions: (0..functions).collect(),
    }]
}

fn generator(functions: Vec<Function>, config: GenConfig, seed: u64) -> (Generator, Vec<Target>) {
    let targets = target(functions.len() as u32);
    let catalogue = Arc::new(Catalogue::new(functions));
    (Generator::new(catalogue, config, seed), targets)
}

fn ten_functions() -> Vec<Function> {
    (0..10)
        .map(|n| function(&format!("f{n}"), &["uint256", "address"]))
        .collect()
}

fn called(tx: &Tx) -> Option<u32> {
    match tx.call {
        Call::Function { function, .. } => Some(function),
        _ => None,
    }
}

fn first_arg(tx: &Tx) -> &Value {
    match &tx.call {
        Call::Function { args, .. } => &args[0],
        other => panic!("no arguments in {other:?}"),
    }
}

/// Runs sequences without a machine; `see` gets every transaction and may feed something back.
fn drive(
    generator: &mut Generator,
    targets: &[Target],
    corpus: &Corpus,
    calls: usize,
    mut see: impl FnMut(&mut Generator, &Tx),
) {
    let mut tx = Tx::default();
    let mut done = 0;
    while done < calls {
        generator.begin(&corpus.snapshot());
        for position in 0..generator.planned() {
            generator.next(position, targets, &mut tx);
            see(generator, &tx);
            done += 1;
        }
        generator.finished(0, false);
    }
}

fn seeded_corpus(generator: &mut Generator, targets: &[Target], sequences: usize) -> Corpus {
    let corpus = Corpus::new();
    let empty = Corpus::new();
    for _ in 0..sequences {
        let mut kept = Vec::new();
        drive(generator, targets, &empty, 5, |_, tx| kept.push(tx.clone()));
        kept.truncate(5);
        corpus.add(Entry {
            gas_used: vec![None; kept.len()],
            transactions: kept.into(),
            origin: Origin::Coverage,
            weight: 1,
        });
    }
    corpus
}

fn every_shape() -> Vec<Function> {
    vec![
        function(
            "a",
            &["uint8", "int8", "uint256", "int256", "int24", "bool"],
        ),
        function(
            "b",
            &["address", "bytes1", "bytes20", "bytes32", "function"],
        ),
        function(
            "c",
            &["bytes", "string", "uint256[]", "bytes[]", "string[2]"],
        ),
        function(
            "pay",
            &["(uint64,(address,bytes)[],bool[3])[]", "uint256[][2][]"],
        ),
        function("d", &[]),
    ]
}

fn compare(left: u64, right: u64, relation: Relation) -> Comparison {
    Comparison {
        left: U256::from(left),
        right: U256::from(right),
        relation,
        site: 7,
    }
}

#[test]
fn everything_generated_and_mutated_is_well_typed() {
    let (mut generator, targets) = generator(every_shape(), config(), 1);
    let corpus = seeded_corpus(&mut generator, &targets, 20);
    let catalogue = Arc::clone(&generator.catalogue);
    let mut shapes = HashSet::new();
    drive(
        &mut generator,
        &targets,
        &corpus,
        20_000,
        |generator, tx| {
            let Call::Function { function, args } = &tx.call else {
                panic!("a call was expected");
            };
            let inputs = &catalogue.get(*function).inputs;
            assert_eq!(inputs.len(), args.len());
            for (of, value) in inputs.iter().zip(args) {
                assert!(value.fits(of), "{value:?} is not {of}");
                if let Value::String(text) = value {
                    assert!(std::str::from_utf8(text).is_ok());
                }
            }
            let data = encode(inputs, args).unwrap();
            assert_eq!(decode(inputs, &data).as_ref(), Ok(args));
            shapes.insert(*function);
            assert!(tx.value <= generator.config.max_value);
            assert!(tx.seconds <= generator.config.max_time_delay);
            assert!(generator.config.senders.contains(&tx.from));
            let word = args.first().and_then(Value::word).unwrap_or_default();
            generator.compared(&[Comparison {
                left: word,
                right: U256::from(77),
                relation: Relation::Less,
                site: 1,
            }]);
            generator.learn_values(inputs, args);
            generator.learn_int(word);
        },
    );
    assert_eq!(shapes.len(), 5);
}

#[test]
fn equal_seeds_give_equal_sequences() {
    let run = |seed| {
        let (mut generator, targets) = generator(every_shape(), config(), seed);
        let corpus = seeded_corpus(&mut generator, &targets, 5);
        let mut all = Vec::new();
        drive(&mut generator, &targets, &corpus, 2_000, |generator, tx| {
            all.push(tx.clone());
            generator.compared(&[compare(5, 9, Relation::Equal)]);
        });
        all
    };
    assert_eq!(run(42), run(42));
    assert_ne!(run(42), run(43));
}

#[test]
fn prioritized_functions_get_ninety_percent_of_the_calls() {
    for seed in 0..20 {
        let (mut generator, targets) = generator(ten_functions(), config(), seed);
        let corpus = seeded_corpus(&mut generator, &targets, 10);
        generator.prioritize(&[3]);
        drive(&mut generator, &targets, &corpus, 20, |_, _| {});
        let (mut hits, mut calls) = (0, 0);
        drive(&mut generator, &targets, &corpus, 1_000, |_, tx| {
            calls += 1;
            hits += u32::from(called(tx) == Some(3));
        });
        let share = f64::from(hits) / f64::from(calls);
        assert!((0.88..=0.94).contains(&share), "seed {seed}: {share}");
    }
}

#[test]
fn the_share_among_new_calls_is_exact_in_the_long_run() {
    for preferred in [&[3][..], &[1, 2, 3, 4, 5]] {
        let (mut generator, targets) = generator(ten_functions(), config(), 5);
        let corpus = seeded_corpus(&mut generator, &targets, 10);
        generator.prioritize(preferred);
        drive(&mut generator, &targets, &corpus, 200_000, |_, _| {});
        let (all, hits) = generator.generated();
        let share = hits as f64 / all as f64;
        let expected = 0.9 + 0.1 * preferred.len() as f64 / 10.0;
        assert!(
            (share - expected).abs() < 0.004,
            "{share} is not {expected}"
        );
    }
}

#[test]
fn calls_are_uniform_inside_the_prioritized_set_and_after_it_is_cleared() {
    let (mut generator, targets) = generator(ten_functions(), config(), 9);
    let empty = Corpus::new();
    let counts = |generator: &mut Generator| {
        let mut counts = [0u32; 10];
        drive(generator, &targets, &empty, 50_000, |_, tx| {
            counts[called(tx).unwrap() as usize] += 1;
        });
        counts
    };
    generator.prioritize(&[0, 1]);
    let preferred = counts(&mut generator);
    let ratio = f64::from(preferred[0]) / f64::from(preferred[1]);
    assert!((0.93..1.07).contains(&ratio), "{preferred:?}");
    generator.prioritize(&[]);
    let even = counts(&mut generator);
    assert!(
        even.iter().all(|count| (4_500..5_500).contains(count)),
        "{even:?}"
    );
}

#[test]
fn unknown_priorities_change_nothing() {
    let (mut generator, targets) = generator(ten_functions(), config(), 9);
    generator.prioritize(&[99]);
    let mut seen = HashSet::new();
    drive(&mut generator, &targets, &Corpus::new(), 1_000, |_, tx| {
        seen.insert(called(tx));
    });
    assert_eq!(seen.len(), 10);
}

#[test]
fn avoided_functions_are_not_called_while_others_are_left() {
    let (mut generator, targets) = generator(ten_functions(), config(), 3);
    let corpus = seeded_corpus(&mut generator, &targets, 10);
    generator.avoid(&[0, 4]);
    drive(&mut generator, &targets, &corpus, 5_000, |generator, tx| {
        assert!(!matches!(called(tx), Some(0 | 4)));
        generator.compared(&[compare(1, 2, Relation::Equal)]);
    });
    generator.avoid(&(0..10).collect::<Vec<_>>());
    drive(&mut generator, &targets, &Corpus::new(), 100, |_, tx| {
        assert!(called(tx).is_some())
    });
}

#[test]
fn contracts_created_at_run_time_are_called_and_used_as_arguments() {
    let (mut generator, mut targets) = generator(ten_functions(), config(), 3);
    let child = Address::repeat_byte(0xcc);
    targets.push(Target {
        address: child,
        functions: [7].into(),
    });
    generator.begin(&Corpus::new().snapshot());
    generator.learn_address(child);
    let (mut callee, mut argument) = (0, 0);
    let mut tx = Tx::default();
    for position in 0..1_000 {
        generator.next(position, &targets, &mut tx);
        callee += u32::from(tx.to == child);
        let Call::Function { args, .. } = &tx.call else {
            continue;
        };
        argument += u32::from(args[1] == Value::Address(child));
    }
    assert!(callee > 50, "{callee}");
    assert!(argument > 50, "{argument}");
}

#[test]
fn without_targets_only_time_passes() {
    let (mut generator, _) = generator(ten_functions(), config(), 3);
    let mut tx = Tx::default();
    generator.begin(&Corpus::new().snapshot());
    generator.next(0, &[], &mut tx);
    assert_eq!(tx.call, Call::Wait);
}

/// How many of the calls have a first argument that satisfies the condition.
fn hits(inputs: &str, calls: usize, wanted: impl Fn(&Value) -> bool) -> usize {
    let (mut generator, targets) = generator(vec![function("f", &[inputs])], config(), 17);
    let mut hits = 0;
    drive(&mut generator, &targets, &Corpus::new(), calls, |_, tx| {
        hits += usize::from(wanted(first_arg(tx)));
    });
    hits
}

#[test]
fn constants_and_their_neighbours_turn_up_soon() {
    let number = |n: u64| move |value: &Value| *value == Value::Uint(U256::from(n));
    assert!(hits("uint256", 1_000, number(123_456_789)) > 50);
    assert!(hits("uint256", 1_000, number(123_456_790)) > 5);
    assert!(hits("uint32", 1_000, number(123_456_788)) > 5);
    let negated = Value::Int(U256::from(123_456_789).wrapping_neg());
    assert!(hits("int64", 1_000, |value| *value == negated) > 5);
    assert!(
        hits("string", 1_000, |value| *value
            == Value::String(b"needle".to_vec()))
            > 50
    );
    assert!(hits("uint8", 1_000, number(255)) > 5);
    assert!(hits("uint256", 1_000, |value| *value == Value::Uint(U256::MAX)) > 5);
}

#[test]
fn fixed_bytes_share_prefixes_with_constants_without_being_equal() {
    let near = |value: &Value| match value {
        Value::Fixed(word, _) => word.starts_with(b"mag") && !word.starts_with(b"magic"),
        _ => false,
    };
    assert!(hits("bytes32", 2_000, near) > 5);
}

#[test]
fn bytes_are_often_calls_of_known_functions() {
    let selector = function("f", &["bytes"]).selector;
    let encoded =
        |value: &Value| matches!(value, Value::Bytes(bytes) if bytes.starts_with(&selector));
    assert!(hits("bytes", 1_000, encoded) > 100);
}

#[test]
fn most_calls_follow_at_once_and_payable_ones_carry_value() {
    let (mut generator, targets) =
        generator(vec![function("pay", &[]), function("f", &[])], config(), 23);
    let (mut prompt, mut paid, mut refused) = (0, 0, 0);
    drive(&mut generator, &targets, &Corpus::new(), 4_000, |_, tx| {
        prompt += u32::from(tx.seconds == 0 && tx.blocks == 0);
        assert_eq!(tx.seconds == 0, tx.blocks == 0);
        match called(tx) {
            Some(0) => paid += u32::from(!tx.value.is_zero()),
            _ => refused += u32::from(!tx.value.is_zero()),
        }
    });
    assert!((2_200..3_000).contains(&prompt), "{prompt}");
    assert!((800..1_200).contains(&paid), "{paid}");
    assert!(refused < 20, "{refused}");
}

#[test]
fn returned_values_come_back_as_arguments() {
    let (mut generator, targets) = generator(ten_functions(), config(), 31);
    let secret = U256::from(0xdead_beef_cafe_u64);
    for noise in 0..100_000u64 {
        generator.learn_int(U256::from(noise * 31));
        generator.compared(&[compare(noise, noise + 1, Relation::Less)]);
    }
    generator.learn_values(&[Type::Uint(256)], &[Value::Uint(secret)]);
    let mut hits = 0;
    drive(&mut generator, &targets, &Corpus::new(), 2_000, |_, tx| {
        hits += u32::from(*first_arg(tx) == Value::Uint(secret));
    });
    assert!(hits > 20, "{hits}");
}

#[test]
fn holes_are_filled_and_given_values_kept() {
    let inputs = ["uint256", "(address,uint8[])", "string"];
    let (mut generator, _) = generator(vec![function("f", &inputs)], config(), 43);
    let types = generator.catalogue.get(0).inputs.clone();
    let args = crate::abi::parse_args(&types, "5, (?, [1, ?]), ?").unwrap();
    let mut tx = Tx {
        call: Call::Function { function: 0, args },
        ..Tx::default()
    };
    generator.fill(&mut tx);
    let Call::Function { args, .. } = &tx.call else {
        panic!("still a call")
    };
    assert!(types.iter().zip(args).all(|(of, value)| value.fits(of)));
    assert_eq!(args[0], Value::Uint(U256::from(5)));
}

#[test]
fn seeds_are_replayed_extended_and_recombined() {
    let (mut generator, targets) = generator(ten_functions(), config(), 47);
    let corpus = Corpus::new();
    let marked: Vec<Tx> = (0..4)
        .map(|n| Tx {
            to: Address::repeat_byte(9),
            call: Call::Function {
                function: n,
                args: vec![Value::Uint(U256::from(n)), Value::Address(Address::ZERO)],
            },
            ..Tx::default()
        })
        .collect();
    corpus.add(Entry {
        transactions: marked.clone().into(),
        gas_used: vec![None; 4],
        origin: Origin::Injected,
        weight: 1,
    });
    let (mut whole, mut new, mut repeated) = (0, 0, 0);
    let mut tx = Tx::default();
    for _ in 0..500 {
        generator.begin(&corpus.snapshot());
        let mut sequence = Vec::new();
        for position in 0..generator.planned() {
            generator.next(position, &targets, &mut tx);
            sequence.push(tx.clone());
        }
        generator.finished(0, false);
        assert!(sequence.len() <= 20 && !sequence.is_empty());
        whole += u32::from(sequence.starts_with(&marked));
        new += u32::from(sequence.iter().any(|tx| tx.to == targets[0].address));
        repeated += u32::from(
            sequence
                .windows(2)
                .any(|pair| pair[0].to == marked[0].to && pair[0] == pair[1]),
        );
    }
    assert!(
        whole > 30 && new > 100 && repeated > 3,
        "{whole} {new} {repeated}"
    );
}

#[test]
fn a_stateless_campaign_has_sequences_of_one() {
    let (mut generator, targets) = generator(
        ten_functions(),
        GenConfig {
            stateless: true,
            ..config()
        },
        53,
    );
    let corpus = seeded_corpus(&mut generator, &targets, 3);
    for _ in 0..100 {
        generator.begin(&corpus.snapshot());
        assert_eq!(generator.planned(), 1);
    }
}

#[test]
fn random_numbers_are_even_and_repeatable() {
    let mut rng = Rng::new(1);
    let mut counts = [0u32; 10];
    for _ in 0..100_000 {
        counts[rng.index(10)] += 1;
    }
    assert!(
        counts.iter().all(|count| (9_500..10_500).contains(count)),
        "{counts:?}"
    );
    assert_eq!(Rng::new(1).next_u64(), Rng::new(1).next_u64());
    assert_eq!(rng.below(0), 0);
    assert!(rng.pick::<u8>(&[]).is_none());
}
