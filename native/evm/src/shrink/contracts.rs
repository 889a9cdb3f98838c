//! Fewer contracts: calls go to others of the same code, so that a creation can be left out.

use revm::primitives::Address;

use super::{without, Shrinker};
use crate::abi::Value;
use crate::tx::{Call, Live, Tx};

impl Shrinker<'_> {
    /// Leaves a creating call out. Later creations then take the addresses of earlier ones, so calls of
    /// later contracts move up by one, and calls of the lost one go to another of its code.
    pub(super) fn drop_creators(&mut self) -> bool {
        let mut smaller = false;
        let mut at = self.best.len();
        while at > 0 && self.best.len() > 1 && !self.is_spent() {
            at -= 1;
            smaller |= self.drop_creator(at);
            at = at.min(self.best.len());
        }
        smaller
    }

    fn drop_creator(&mut self, at: usize) -> bool {
        let Some(&lost) = self.live.iter().find(|live| live.creator == Some(at)) else {
            return false;
        };
        let alike = self.alike(lost);
        let Some(rank) = alike.iter().position(|address| *address == lost.address) else {
            return false;
        };
        let moved = |instead: Address| {
            let alike = alike.clone();
            move |address: Address| match alike.iter().position(|other| *other == address) {
                Some(place) if place == rank => instead,
                Some(place) if place > rank => alike[place - 1],
                _ => address,
            }
        };
        // The next of the code moves to the address of the lost one; the last address goes away.
        let left = alike.len() - 1;
        let order = (rank..left).chain((0..rank).rev());
        let instead: Vec<Address> = order.map(|place| alike[place]).collect();
        (instead.into_iter()).any(|instead| {
            let mut candidate = without(&self.best, |i| i == at);
            (candidate.iter_mut()).for_each(|tx| retarget(tx, &moved(instead)));
            self.accepts(candidate)
        })
    }

    /// Sends calls to the earliest contract of the code that will do.
    pub(super) fn unify_targets(&mut self) -> bool {
        let mut smaller = false;
        for later in (0..self.live.len()).rev() {
            let Some(&live) = self.live.get(later) else {
                continue;
            };
            if !self.best.iter().any(|tx| tx.to == live.address) {
                continue;
            }
            let alike = self.alike(live);
            smaller |= (alike.iter())
                .take_while(|earlier| **earlier != live.address)
                .any(|earlier| {
                    let mut candidate = self.best.clone();
                    for tx in candidate.iter_mut().filter(|tx| tx.to == live.address) {
                        tx.to = *earlier;
                    }
                    self.accepts(candidate)
                });
        }
        smaller
    }

    /// Addresses of the same code, in order of creation.
    fn alike(&self, live: Live) -> Vec<Address> {
        let same = self.live.iter().filter(|other| other.code == live.code);
        same.map(|other| other.address).collect()
    }
}

fn retarget(tx: &mut Tx, map: &impl Fn(Address) -> Address) {
    tx.to = map(tx.to);
    rename(tx, map);
}

/// Replaces addresses among the arguments.
pub(super) fn rename(tx: &mut Tx, map: &impl Fn(Address) -> Address) {
    fn walk(value: &mut Value, map: &impl Fn(Address) -> Address) {
        match value {
            Value::Address(address) => *address = map(*address),
            Value::Array(items) | Value::Tuple(items) => {
                items.iter_mut().for_each(|item| walk(item, map));
            }
            _ => {}
        }
    }
    if let Call::Function { args, .. } = &mut tx.call {
        args.iter_mut().for_each(|arg| walk(arg, map));
    }
}
