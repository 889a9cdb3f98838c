//! Which texts may have been forgotten: a filter, so that those that are new need no look into the file.

/// Texts that the first layer takes; each later one takes twice as many.
const FIRST: usize = 1 << 12;
/// Bits for each text: about one text in five hundred is then looked for in vain.
const BITS: usize = 16;
/// Words of a block, which is what the processor fetches at a time.
const BLOCK: usize = 8;
const MARKS: u32 = 6;

#[derive(Default)]
pub struct Forgotten {
    layers: Vec<Layer>,
}

struct Layer {
    blocks: Vec<[u64; BLOCK]>,
    room: usize,
}

impl Forgotten {
    pub fn add(&mut self, hash: u64) {
        if self.layers.last().is_none_or(|layer| layer.room == 0) {
            self.layers.push(Layer::new(FIRST << self.layers.len()));
        }
        if let Some(layer) = self.layers.last_mut() {
            layer.add(hash);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Whether a text with this hash was perhaps added; never false for one that was.
    pub fn may_hold(&self, hash: u64) -> bool {
        self.layers.iter().any(|layer| layer.may_hold(hash))
    }
}

impl Layer {
    fn new(room: usize) -> Self {
        let blocks = vec![[0; BLOCK]; room * BITS / (64 * BLOCK)];
        Self { blocks, room }
    }

    fn block(&self, hash: u64) -> usize {
        // As many blocks as there are is a power of two.
        hash as usize & (self.blocks.len() - 1)
    }

    fn add(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in marks(hash) {
            self.blocks[block][word] |= bit;
        }
        self.room -= 1;
    }

    fn may_hold(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block(hash)];
        marks(hash).all(|(word, bit)| block[word] & bit != 0)
    }
}

/// The words and bits of a block that stand for a hash.
fn marks(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let spread = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (0..MARKS).map(move |mark| {
        let nine = spread >> (64 - 9 * (mark + 1));
        ((nine & 7) as usize, 1 << (nine >> 3 & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        let once = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (once ^ (once >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn what_was_added_is_held_and_little_else() {
        let mut forgotten = Forgotten::default();
        assert!(!forgotten.may_hold(hash(0)));
        (0..100_000).for_each(|number| forgotten.add(hash(number)));
        assert!((0..100_000).all(|number| forgotten.may_hold(hash(number))));
        let wrong = (100_000..200_000)
            .filter(|&number| forgotten.may_hold(hash(number)))
            .count();
        assert!(wrong < 2_000, "{wrong} of 100,000");
    }
}
