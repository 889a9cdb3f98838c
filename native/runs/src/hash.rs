//! Hashes of texts.

pub const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash; with a key that nobody knows, one that nobody can make texts for.
#[inline]
pub fn hash(text: &[u8], key: u64) -> u64 {
    let mut state = key ^ (text.len() as u64).wrapping_mul(ODD);
    for word in text.chunks_exact(8) {
        state = folded(state ^ eight(word), key | 1);
    }
    folded(state ^ last_bytes(text), ODD)
}

/// The last eight bytes or, of a shorter text, all of them in some order.
#[inline]
fn last_bytes(text: &[u8]) -> u64 {
    let length = text.len();
    if length >= 8 {
        return eight(&text[length - 8..]);
    }
    if length >= 4 {
        return four(text) | four(&text[length - 4..]) << 32;
    }
    let byte = |at: usize| text.get(at).copied().map_or(0, u64::from);
    byte(0) | byte(length / 2) << 8 | byte(length.wrapping_sub(1)) << 16
}

#[inline]
fn eight(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline]
fn four(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
}

#[inline]
fn folded(left: u64, right: u64) -> u64 {
    let product = u128::from(left).wrapping_mul(u128::from(right));
    (product as u64) ^ ((product >> 64) as u64)
}
