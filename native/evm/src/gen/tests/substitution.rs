use super::*;

#[test]
fn a_comparison_with_an_argument_is_solved_by_the_next_calls() {
    let (mut generator, targets) = generator(ten_functions(), config(), 37);
    let magic = U256::from(0x1234_5678_9abc_def0_u64);
    let mut solved = 0;
    let mut asked = 0;
    drive(
        &mut generator,
        &targets,
        &Corpus::new(),
        1_000,
        |generator, tx| {
            let left = first_arg(tx).word().unwrap();
            asked += 1;
            solved += u32::from(left == magic);
            let comparison = Comparison {
                left,
                right: magic,
                relation: Relation::Equal,
                site: asked,
            };
            generator.compared(&[comparison]);
        },
    );
    assert!(solved > 100, "{solved}");
}

fn substituted(inputs: &[&str], args: &str, comparison: Comparison) -> HashSet<String> {
    let (mut generator, targets) = generator(vec![function("pay", inputs)], config(), 41);
    let types = generator.catalogue.get(0).inputs.clone();
    let args = crate::abi::parse_args(&types, args).unwrap();
    let mut results = HashSet::new();
    for _ in 0..200 {
        let mut tx = Tx {
            value: U256::from(500),
            from: generator.config.senders[1],
            call: Call::Function {
                function: 0,
                args: args.clone(),
            },
            ..Tx::default()
        };
        let (mut values, config) = generator.values(&targets);
        if values.substitute(&mut tx, &comparison, config)
            || values.shift(&mut tx, &comparison, config)
        {
            let Call::Function { args, .. } = &tx.call else {
                continue;
            };
            assert!(types.iter().zip(args).all(|(of, value)| value.fits(of)));
            let call = crate::abi::print_args(args);
            results.insert(format!("{call} value {} from {}", tx.value, tx.from[19]));
        }
    }
    results
}

#[test]
fn the_other_operand_takes_the_place_of_the_matching_input() {
    let has = |results: &HashSet<String>, wanted: &str| {
        assert!(results.contains(wanted), "{wanted} is not in {results:?}");
    };
    let equal = |left, right| compare(left, right, Relation::Equal);
    has(
        &substituted(&["uint64", "uint64"], "7, 9", equal(9, 4_000)),
        "7, 4000 value 500 from 32",
    );
    has(
        &substituted(&["uint8"], "7", equal(7, 8)),
        "8 value 500 from 32",
    );
    has(
        &substituted(&["(uint64,bool)[]"], "[(7, true)]", equal(90, 7)),
        "[(90, true)] value 500 from 32",
    );
    has(
        &substituted(&["uint8[]"], "[1, 2]", equal(2, 4)),
        "[1, 2, 0, 0] value 500 from 32",
    );
    has(
        &substituted(&["bytes"], "0x00aabbccdd", equal(0xaabb_ccdd, 0x0102_0304)),
        "0x0001020304 value 500 from 32",
    );
    has(
        &substituted(&["bytes4"], "0xaabbccdd", equal(0xaabb_ccdd, 0x0102_0304)),
        "0x01020304 value 500 from 32",
    );
    has(
        &substituted(&["bool"], "true", equal(500, 800)),
        "true value 800 from 32",
    );
    has(
        &substituted(&["bool"], "true", equal(32, 48)),
        "true value 500 from 48",
    );
    // Less: the sides are moved just past each other.
    has(
        &substituted(&["uint64"], "7", compare(7, 100, Relation::Less)),
        "100 value 500 from 32",
    );
    has(
        &substituted(&["uint64"], "100", compare(100, 7, Relation::Less)),
        "6 value 500 from 32",
    );
    has(
        &substituted(&["uint64"], "7", compare(7, 100, Relation::Greater)),
        "101 value 500 from 32",
    );
    // Not the argument itself, but the argument and 50: moved by the difference.
    has(
        &substituted(&["uint64"], "7", equal(57, 60)),
        "10 value 500 from 32",
    );
}

#[test]
fn substitution_never_leaves_the_type() {
    let results = substituted(&["uint8"], "7", compare(7, 1_000, Relation::Equal));
    assert!(
        results.iter().all(|text| !text.starts_with("1000")),
        "{results:?}"
    );
}

#[test]
fn single_bytes_of_a_blob_are_found_at_either_end_of_the_word() {
    let left = |byte: u64| U256::from(byte) << 248;
    let pair = |left, right, relation| Comparison {
        left,
        right,
        relation,
        site: 1,
    };
    let whole = |text: &str| format!("{text} value 500 from 32");
    let blob = "0x01ee0203";
    for (from, to) in [
        (left(0xee), left(0xab)),
        (U256::from(0xee), U256::from(0xab)),
    ] {
        let results = substituted(&["bytes"], blob, pair(from, to, Relation::Equal));
        assert!(results.contains(&whole("0x01ab0203")), "{results:?}");
    }
    // A step of such a word is one of its first byte.
    let results = substituted(
        &["bytes"],
        blob,
        pair(left(0xee), left(0xf0), Relation::Greater),
    );
    assert!(results.contains(&whole("0x01f10203")), "{results:?}");
    // Any of several equal bytes may be the one.
    let results = substituted(
        &["bytes"],
        "0x0000",
        pair(left(0), left(7), Relation::Equal),
    );
    assert!(results.contains(&whole("0x0700")) && results.contains(&whole("0x0007")));
    // A string keeps to characters.
    let text = "\"abc\"";
    let results = substituted(
        &["string"],
        text,
        pair(
            left(u64::from(b'b')),
            left(u64::from(b'x')),
            Relation::Equal,
        ),
    );
    assert!(results.contains(&whole("\"axc\"")), "{results:?}");
    let results = substituted(
        &["string"],
        text,
        pair(left(u64::from(b'b')), left(0xff), Relation::Equal),
    );
    assert!(
        results.iter().all(|row| row.starts_with(text)),
        "{results:?}"
    );
}

#[test]
fn the_sum_of_a_list_is_moved_over_several_items() {
    let sums: Vec<u64> = substituted(
        &["uint8[]"],
        "[200, 3, 250, 9, 1]",
        compare(463, 1_000, Relation::Equal),
    )
    .iter()
    .filter_map(|row| {
        let items = row.strip_prefix('[')?.split_once(']')?.0;
        items.split(", ").map(|item| item.parse::<u64>().ok()).sum()
    })
    .collect();
    assert!(sums.contains(&1_000), "{sums:?}");
    let short = substituted(&["uint8[]"], "[1]", compare(1, 600, Relation::Equal));
    assert!(
        short.contains("[255, 255, 90] value 500 from 32"),
        "{short:?}"
    );
}
