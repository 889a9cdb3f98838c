use revm::primitives::{Address, U256};
use serde_json::json;

use super::*;
use crate::gen::Rng;

fn types(texts: &[&str]) -> Vec<Type> {
    texts
        .iter()
        .map(|text| Type::parse(text).unwrap())
        .collect()
}

fn random_type(rng: &mut Rng, depth: u8) -> Type {
    match rng.below(if depth < 3 { 11 } else { 8 }) {
        0 => Type::Uint(8 * rng.between(1, 32) as u16),
        1 => Type::Int(8 * rng.between(1, 32) as u16),
        2 => Type::Bool,
        3 => Type::Address,
        4 => Type::FixedBytes(rng.between(1, 32) as u8),
        5 => Type::Function,
        6 => Type::Bytes,
        7 => Type::String,
        8 => Type::Array(Box::new(random_type(rng, depth + 1))),
        9 => Type::FixedArray(Box::new(random_type(rng, depth + 1)), 1 + rng.index(3)),
        _ => Type::Tuple(
            (0..1 + rng.index(3))
                .map(|_| random_type(rng, depth + 1))
                .collect(),
        ),
    }
}

fn random_bytes(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.index(70)];
    rng.fill(&mut bytes);
    bytes
}

fn random_value(rng: &mut Rng, of: &Type) -> Value {
    match of {
        Type::Bytes => Value::Bytes(random_bytes(rng)),
        Type::String if rng.coin() => Value::String(random_bytes(rng)),
        Type::String => Value::String("a \"b\" (c), [d] \\ ü € \n\u{7f}".as_bytes().to_vec()),
        Type::Array(item) => {
            Value::Array((0..rng.index(4)).map(|_| random_value(rng, item)).collect())
        }
        Type::FixedArray(item, length) => {
            Value::Array((0..*length).map(|_| random_value(rng, item)).collect())
        }
        Type::Tuple(types) => Value::Tuple(types.iter().map(|of| random_value(rng, of)).collect()),
        _ => {
            let word = rng.word_of_any_size(256);
            Value::from_word(
                of,
                if rng.coin() {
                    word
                } else {
                    word.wrapping_neg()
                },
            )
            .unwrap()
        }
    }
}

fn random_args(rng: &mut Rng) -> (Vec<Type>, Vec<Value>) {
    let types: Vec<Type> = (0..rng.index(5)).map(|_| random_type(rng, 0)).collect();
    let values = types.iter().map(|of| random_value(rng, of)).collect();
    (types, values)
}

#[test]
fn a_type_prints_as_it_was_parsed() {
    let mut rng = Rng::new(1);
    for _ in 0..2_000 {
        let of = random_type(&mut rng, 0);
        assert_eq!(Type::parse(&of.to_string()), Ok(of));
    }
}

#[test]
fn aliases_and_spaces_become_canonical() {
    for (text, canonical) in [
        ("uint", "uint256"),
        ("int[]", "int256[]"),
        ("byte", "bytes1"),
        (
            "tuple( uint , (bool,string)[2] )[3][]",
            "(uint256,(bool,string)[2])[3][]",
        ),
    ] {
        assert_eq!(Type::parse(text).unwrap().to_string(), canonical);
    }
    let (name, inputs) = parse_signature("f$( uint, address[] )").unwrap();
    assert_eq!(signature(&name, &inputs), "f$(uint256,address[])");
}

#[test]
fn malformed_types_are_refused() {
    let deep = format!("{}bool{}", "(".repeat(40), ")".repeat(40));
    for text in [
        "",
        "uint7",
        "uint264",
        "uint08",
        "int0",
        "bytes0",
        "bytes33",
        "uint256[",
        "uint256[0]",
        "uint256[-1]",
        "()",
        "(uint256",
        "(uint256,)",
        "uint256]",
        "foo",
        "uint256 x",
        "bool[99999999999999999999999]",
        "bool[65536][65536]",
        &deep,
        "ü",
    ] {
        assert!(Type::parse(text).is_err(), "{text}");
    }
}

#[test]
fn selectors_are_those_of_the_chain() {
    let transfer = types(&["address", "uint256"]);
    assert_eq!(selector("transfer", &transfer), [0xa9, 0x05, 0x9c, 0xbb]);
    assert_eq!(
        selector("sam", &types(&["bytes", "bool", "uint256[]"])),
        [0xa5, 0x64, 0x3b, 0xf2]
    );
}

#[test]
fn encoding_is_that_of_the_abi_specification() {
    let types = types(&["bytes", "bool", "uint256[]"]);
    let values = parse_args(&types, "\"dave\", true, [1, 2, 3]").unwrap();
    let expected = [
        "0000000000000000000000000000000000000000000000000000000000000060",
        "0000000000000000000000000000000000000000000000000000000000000001",
        "00000000000000000000000000000000000000000000000000000000000000a0",
        "0000000000000000000000000000000000000000000000000000000000000004",
        "6461766500000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000003",
        "0000000000000000000000000000000000000000000000000000000000000001",
        "0000000000000000000000000000000000000000000000000000000000000002",
        "0000000000000000000000000000000000000000000000000000000000000003",
    ];
    assert_eq!(
        to_hex(&encode(&types, &values).unwrap()),
        format!("0x{}", expected.concat())
    );
}

#[test]
fn nested_dynamic_types_are_encoded_as_in_the_specification() {
    let types = types(&["uint256[][]", "string[]"]);
    let values = parse_args(&types, "[[1, 2], [3]], [\"one\", \"two\", \"three\"]").unwrap();
    let words: Vec<String> = encode(&types, &values)
        .unwrap()
        .chunks(32)
        .map(|word| {
            to_hex(word)
                .trim_start_matches("0x")
                .trim_start_matches('0')
                .to_owned()
        })
        .collect();
    let text = |s: &str| format!("{:0<64}", to_hex(s.as_bytes()).trim_start_matches("0x"));
    let (one, two, three) = (text("one"), text("two"), text("three"));
    assert_eq!(
        words,
        [
            "40", "140", "2", "40", "a0", "2", "1", "2", "1", "3", "3", "60", "a0", "e0", "3",
            &one, "3", &two, "5", &three,
        ]
    );
}

#[test]
fn decoding_undoes_encoding() {
    let mut rng = Rng::new(2);
    for _ in 0..3_000 {
        let (types, values) = random_args(&mut rng);
        let mut data = encode(&types, &values).unwrap();
        assert_eq!(data.len() % 32, 0);
        assert_eq!(decode(&types, &data).as_ref(), Ok(&values));
        data.extend_from_slice(b"trailing");
        assert_eq!(decode(&types, &data), Ok(values));
    }
}

#[test]
fn damaged_data_is_decoded_or_refused_without_panic() {
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        let (types, values) = random_args(&mut rng);
        let mut data = encode(&types, &values).unwrap();
        for _ in 0..rng.index(4) {
            if !data.is_empty() {
                let at = rng.index(data.len());
                data[at] = rng.next_u64() as u8;
            }
        }
        data.truncate(rng.index(data.len() + 1));
        if let Ok(values) = decode(&types, &data) {
            assert!(values.iter().zip(&types).all(|(value, of)| value.fits(of)));
        }
    }
}

#[test]
fn offsets_that_point_back_do_not_unfold_for_ever() {
    let of = format!("uint256{}", "[]".repeat(12));
    // Every array has 32 items that are all the same array further on.
    let mut data = vec![0; 32 * 100];
    data.chunks_mut(32).for_each(|word| word[31] = 32);
    let error = decode(&types(&[&of]), &data).unwrap_err();
    assert!(error.0.contains("too many values"), "{error}");
}

#[test]
fn encoding_into_a_buffer_appends_and_leaves_it_alone_on_errors() {
    let types = types(&["uint256", "string"]);
    let mut out = vec![1, 2, 3, 4];
    let values = [Value::Uint(U256::from(7)), Value::Hole];
    let error = encode_into(&types, &values, &mut out).unwrap_err();
    assert!(error.0.starts_with("argument 1: a hole"), "{error}");
    assert_eq!(out, [1, 2, 3, 4]);
    encode_into(&types[..1], &values[..1], &mut out).unwrap();
    assert_eq!(out.len(), 36);
    assert!(encode_into(&types, &values[..1], &mut out).is_err());
}

#[test]
fn text_is_parsed_back_to_the_same_values() {
    let mut rng = Rng::new(4);
    for _ in 0..5_000 {
        let (types, values) = random_args(&mut rng);
        let text = print_call("f", &values);
        let (name, args) = split_call(&text).unwrap();
        assert_eq!(name, "f");
        assert_eq!(parse_args(&types, args), Ok(values), "{text}");
    }
}

#[test]
fn json_is_parsed_back_to_the_same_values() {
    let mut rng = Rng::new(5);
    for _ in 0..3_000 {
        let (types, values) = random_args(&mut rng);
        let text = args_to_json(&values).to_string();
        let parsed = serde_json::from_str(&text).unwrap();
        assert_eq!(args_from_json(&types, &parsed), Ok(values), "{text}");
    }
}

#[test]
fn numbers_may_be_decimal_or_hex_and_negative() {
    let types = types(&["uint8", "int8", "int16", "int256"]);
    let values = parse_args(&types, "0xff, -128, -0x1, 5").unwrap();
    assert_eq!(print_args(&values), "255, -128, -1, 5");
    assert_eq!(to_json(&values[1]), json!("-128"));
}

#[test]
fn tuples_may_be_written_with_brackets_and_holes_stand_anywhere() {
    let types = types(&["(uint256,(bool,address)[])", "string"]);
    let values = parse_args(&types, "[1, [[true, ?]]], ?").unwrap();
    assert_eq!(print_args(&values), "(1, [(true, ?)]), ?");
    assert!(values.iter().all(Value::has_hole));
    assert_eq!(to_json(&values[1]), json!({ "hole": true }));
}

#[test]
fn bad_arguments_are_named_by_their_index() {
    let pair = types(&["address", "uint8"]);
    let address = "0x1234567890abcdef1234567890abcdef12345678";
    for (text, part) in [
        (
            format!("{address}, 256"),
            "argument 1: 256 is out of range for uint8",
        ),
        (format!("{address}, -1"), "argument 1: -1 is out of range"),
        (format!("{address}, 0x"), "argument 1: expected uint8"),
        (format!("{address}, 1e3"), "argument 1: expected uint8"),
        (format!("{address}, "), "argument 1: expected uint8"),
        (address.to_owned(), "argument 1: missing; expected uint8"),
        (format!("{address}, 1, 2"), "argument 2: not expected"),
        (format!("{address} 1"), "argument 0: expected an address"),
        (
            "0xabcd..., 1".to_owned(),
            "argument 0: \"0xabcd...\" is an elided address",
        ),
        ("0xabcd, 1".to_owned(), "argument 0: expected an address"),
        ("\"x\", 1".to_owned(), "argument 0: expected an address"),
        (String::new(), "argument 0: missing; expected address"),
    ] {
        let error = parse_args(&pair, &text).unwrap_err();
        assert!(error.0.contains(part), "{text}: {error}");
    }
}

#[test]
fn strings_bytes_and_lists_complain_about_what_is_wrong() {
    for (of, text, part) in [
        ("string", "\"open", "not closed"),
        ("string", "bare", "a quoted string"),
        ("string", "\"\\q\"", "unknown escape"),
        ("string", "\"\\xg0\"", "2 hex digits"),
        ("bytes", "0x123", "odd number"),
        ("bytes", "0x1g", "not a hex digit"),
        ("bytes4", "0x123456", "needs 4 bytes, got 3"),
        ("bytes2", "\"abc\"", "holds 2 bytes"),
        ("bool", "yes", "true or false"),
        ("uint8[2]", "[1]", "has 2 items, got 1"),
        ("(uint8,bool)", "(1)", "has 2 items, got 1"),
        ("(uint8,bool)", "(1, true, 2)", "more than 2 items"),
        ("uint8[]", "[1, 2", "found the end"),
        ("uint8[]", "1", "expected '['"),
        ("uint8[]", "[1 2]", "expected uint8"),
    ] {
        let error = parse_value(&Type::parse(of).unwrap(), text).unwrap_err();
        assert!(error.0.contains(part), "{of} {text}: {error}");
    }
}

#[test]
fn a_call_is_split_at_its_balanced_parentheses() {
    assert_eq!(
        split_call(" f ( (1,2), \")\" ) "),
        Ok(("f", " (1,2), \")\" "))
    );
    for text in [
        "f", "f(", "f(1", "f(1))", "f([1)", "1f()", "f() g()", "f(\"a)", "(1)", "",
    ] {
        assert!(split_call(text).is_err(), "{text}");
    }
}

#[test]
fn parsing_never_panics_on_damaged_text() {
    let mut rng = Rng::new(6);
    for _ in 0..5_000 {
        let (types, values) = random_args(&mut rng);
        let mut text: Vec<char> = print_args(&values).chars().collect();
        for _ in 0..1 + rng.index(3) {
            if !text.is_empty() {
                let at = rng.index(text.len());
                text[at] = ['(', ')', '"', '\\', '€', '0', ',', '[', '?', ' '][rng.index(10)];
            }
        }
        let text: String = text.into_iter().collect();
        let _ = split_call(&format!("f({text})"));
        let _ = parse_args(&types, &text);
        let _ = Type::parse(&text);
    }
}

#[test]
fn json_of_the_wrong_kind_is_refused_with_its_place() {
    let types = types(&["uint8", "(bool,bytes2)[]"]);
    for (args, part) in [
        (json!([1]), "expected 2 arguments, got 1"),
        (json!(["256", []]), "argument 0: 256 is out of range"),
        (json!([1.5, []]), "argument 0: expected uint8"),
        (
            json!([1, [[true, "0x01"]]]),
            "argument 1: item 0: item 1: expected 2 bytes, got 1",
        ),
        (
            json!([1, [[0, "0x0102"]]]),
            "argument 1: item 0: item 0: expected bool, got a number",
        ),
        (json!({}), "must be a list"),
    ] {
        let error = args_from_json(&types, &args).unwrap_err();
        assert!(error.0.contains(part), "{args}: {error}");
    }
    assert!(args_from_json(&types, &json!([255, [[true, "0x0102"]]])).is_ok());
}

#[test]
fn values_know_whether_they_fit() {
    assert!(Value::Uint(U256::from(255)).fits(&Type::Uint(8)));
    assert!(!Value::Uint(U256::from(256)).fits(&Type::Uint(8)));
    assert!(Value::Int(U256::MAX).fits(&Type::Int(8)));
    assert!(!Value::Int(U256::from(128)).fits(&Type::Int(8)));
    assert!(!Value::Address(Address::ZERO).fits(&Type::Uint(160)));
    assert!(!Value::Hole.fits(&Type::Bool));
}

#[test]
fn items_that_share_a_place_unfold_to_few_times_their_data() {
    let place = 1 << 21;
    let word = |number: usize| U256::from(number).to_be_bytes::<32>();
    let data = |items: usize| {
        let heads = std::iter::repeat_n(word(32 * items), items);
        let head = [word(32), word(items)].into_iter().chain(heads);
        let mut data: Vec<u8> = head.chain([word(place)]).flatten().collect();
        data.resize(data.len() + place, 7);
        data
    };
    assert!(decode(&types(&["bytes[]"]), &data(3)).is_ok());
    assert!(decode(&types(&["bytes[]"]), &data(8)).is_err());
}
