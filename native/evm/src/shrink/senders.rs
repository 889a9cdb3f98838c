//! Simpler senders: the first of the campaign, as far as that fails alike.

use revm::primitives::Address;

use super::contracts::rename;
use super::Shrinker;

impl Shrinker<'_> {
    pub(super) fn simplify_senders(&mut self) -> bool {
        let Some(&first) = self.senders.first() else {
            return false;
        };
        let mut smaller = self.unify_senders(first) || self.exchange_senders();
        let mut at = 0;
        while at < self.best.len() {
            smaller |= self.simplify_sender(at);
            at += 1;
        }
        smaller
    }

    fn unify_senders(&mut self, sender: Address) -> bool {
        if self.best.iter().all(|tx| tx.from == sender) {
            return false;
        }
        let mut candidate = self.best.clone();
        candidate.iter_mut().for_each(|tx| tx.from = sender);
        self.accepts(candidate)
    }

    /// One sender takes the part of another that is simpler and has none, wherever it appears.
    fn exchange_senders(&mut self) -> bool {
        let senders = self.senders;
        let mut smaller = false;
        for (rank, &simple) in senders.iter().enumerate() {
            if self.best.iter().any(|tx| tx.from == simple) {
                continue;
            }
            let later = |other: &Address| !senders[..rank].contains(other) && *other != simple;
            let Some(other) = self.best.iter().map(|tx| tx.from).find(|from| later(from)) else {
                break;
            };
            let mut candidate = self.best.clone();
            for tx in &mut candidate {
                if tx.from == other {
                    tx.from = simple;
                }
                rename(tx, &|address| match address {
                    _ if address == other => simple,
                    _ if address == simple => other,
                    _ => address,
                });
            }
            smaller |= self.accepts(candidate);
        }
        smaller
    }

    fn simplify_sender(&mut self, at: usize) -> bool {
        let senders = self.senders;
        let Some(current) = self.best.get(at).map(|tx| tx.from) else {
            return false;
        };
        (senders.iter())
            .take_while(|sender| **sender != current)
            .any(|sender| self.edit(at, |tx| tx.from = *sender))
    }
}
