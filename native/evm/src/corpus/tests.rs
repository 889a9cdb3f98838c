use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

fn call(function: u32, from: u8, value: u64) -> Tx {
    Tx {
        from: Address::with_last_byte(from),
        value: U256::from(value),
        call: Call::Function {
            function,
            args: Vec::new(),
        },
        ..Tx::default()
    }
}

fn entry(transactions: Vec<Tx>, origin: Origin) -> Entry {
    Entry {
        gas_used: vec![None; transactions.len()],
        transactions: transactions.into(),
        origin,
        weight: 1,
    }
}

#[test]
fn transactions_are_numbered_in_the_order_of_their_sequences() {
    let corpus = Corpus::new();
    for length in [3, 1, 4] {
        corpus.add(entry(
            vec![call(length, 1, 0); length as usize],
            Origin::Coverage,
        ));
    }
    assert_eq!((corpus.sequences(), corpus.transactions()), (3, 8));
    let places: Vec<_> = corpus
        .page(2, 4)
        .iter()
        .map(|row| (row.index, row.sequence, row.position))
        .collect();
    assert_eq!(places, [(2, 0, 2), (3, 1, 0), (4, 2, 0), (5, 2, 1)]);
    assert!(corpus.page(8, 10).is_empty());
    assert!(corpus.page(u64::MAX, 10).is_empty());
    assert_eq!(corpus.page(0, 100).len(), 8);
    assert!(corpus.page(0, 0).is_empty());
}

#[test]
fn empty_sequences_do_not_disturb_the_numbering() {
    let corpus = Corpus::new();
    corpus.add(entry(vec![], Origin::Loaded));
    corpus.add(entry(vec![call(1, 1, 0)], Origin::Loaded));
    corpus.add(entry(vec![], Origin::Loaded));
    corpus.add(entry(vec![call(2, 1, 0)], Origin::Loaded));
    let places: Vec<_> = corpus
        .page(0, 9)
        .iter()
        .map(|row| (row.index, row.sequence))
        .collect();
    assert_eq!(places, [(0, 1), (1, 3)]);
    assert_eq!(corpus.page(1, 9).len(), 1);
}

#[test]
fn all_conditions_of_a_query_must_hold() {
    let corpus = Corpus::new();
    corpus.add(entry(
        vec![call(1, 1, 5), call(1, 2, 50), call(2, 2, 50)],
        Origin::Injected,
    ));
    corpus.add(entry(vec![Tx::default()], Origin::Coverage));
    let count = |function: Option<u32>, sender: Option<u8>, least: Option<u64>| {
        let query = Query {
            function,
            sender: sender.map(Address::with_last_byte),
            min_value: least.map(U256::from),
        };
        corpus.find(&query).len()
    };
    assert_eq!(count(Some(1), None, None), 2);
    assert_eq!(count(None, Some(2), None), 2);
    assert_eq!(count(None, None, Some(6)), 2);
    assert_eq!(count(Some(1), Some(2), Some(50)), 1);
    assert_eq!(count(Some(1), Some(2), Some(51)), 0);
    assert_eq!(count(None, None, None), 4);
}

#[test]
fn gas_appears_once_a_loaded_sequence_was_replayed() {
    let corpus = Corpus::new();
    let number = corpus.add(entry(vec![call(1, 1, 0)], Origin::Loaded));
    let before = corpus.snapshot();
    assert_eq!(before.page(0, 1)[0].gas_used, None);
    corpus.set_gas(number, vec![Some(21_000)]);
    corpus.set_gas(number + 9, vec![Some(1)]);
    assert_eq!(corpus.page(0, 1)[0].gas_used, Some(21_000));
}

#[test]
fn the_newest_injected_and_improved_sequences_are_at_hand() {
    let corpus = Corpus::new();
    for (function, origin) in [
        (1, Origin::Injected),
        (2, Origin::Coverage),
        (3, Origin::Injected),
        (4, Origin::Improved),
    ] {
        corpus.add(entry(vec![call(function, 1, 0)], origin));
    }
    let snapshot = corpus.snapshot();
    assert_eq!(snapshot.injected(0).map(|r| r.sequence), Some(2));
    assert_eq!(snapshot.injected(1).map(|r| r.sequence), Some(0));
    assert!(snapshot.injected(2).is_none());
    assert_eq!(snapshot.improved(0).map(|r| r.sequence), Some(3));
}

#[test]
fn snapshots_stay_whole_while_writers_append() {
    const WRITERS: u64 = 3;
    const EACH: u64 = 2_000;
    let corpus = Corpus::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let corpus = &corpus;
                scope.spawn(move || {
                    for count in 0..EACH {
                        let transactions =
                            vec![call(writer as u32, 1, count); (count % 3 + 1) as usize];
                        corpus.add(entry(transactions, Origin::Coverage));
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                let snapshot = corpus.snapshot();
                assert!(snapshot.len() >= seen);
                seen = snapshot.len();
                let total = snapshot.transactions();
                let from = total.saturating_sub(50);
                let rows = snapshot.page(from, 100);
                assert_eq!(rows.len() as u64, total - from);
                assert!(rows
                    .iter()
                    .zip(from..)
                    .all(|(row, index)| row.index == index));
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(corpus.sequences(), WRITERS * EACH);
    let rows = corpus.page(0, usize::MAX);
    assert_eq!(rows.len() as u64, corpus.transactions());
    for writer in 0..WRITERS as u32 {
        let query = Query {
            function: Some(writer),
            ..Query::default()
        };
        let values: Vec<U256> = corpus.find(&query).iter().map(|row| row.tx.value).collect();
        assert!(values.is_sorted(), "a writer's sequences keep their order");
    }
}
