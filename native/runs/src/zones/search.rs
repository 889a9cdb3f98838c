//! Looking for a value in a packed column, many rows a step.

/// An unsigned number as it lies in a strip.
pub trait Cell: Copy + PartialEq + Default {
    const WIDTH: usize;
    fn read(bytes: &[u8]) -> Self;
    /// The number, cut to the width.
    fn cut(number: u64) -> Self;
    fn wide(self) -> u64;
}

macro_rules! cell {
    ($type:ty) => {
        impl Cell for $type {
            const WIDTH: usize = size_of::<$type>();

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_le_bytes)
            }

            #[inline(always)]
            fn cut(number: u64) -> Self {
                number as Self
            }

            #[inline(always)]
            fn wide(self) -> u64 {
                u64::from(self)
            }
        }
    };
}

cell!(u8);
cell!(u16);
cell!(u32);
cell!(u64);

/// Rows that are looked at together: most of them have none of what is wanted.
const STEP: usize = 64;

/// Add the rows that hold `wanted`, which is more by `step` with each of them; the first has the number `start`.
pub fn equal<C: Cell>(data: &[u8], wanted: u64, step: u8, start: usize, found: &mut Vec<u16>) {
    if step > 0 {
        // Kept apart, so that the frequent case compares with one number.
        return every::<C>(data, start, found, |row, cell| {
            cell == C::cut(wanted.wrapping_add((row - start) as u64))
        });
    }
    let cell = C::cut(wanted);
    if cell.wide() == wanted {
        every::<C>(data, start, found, |_, other| other == cell);
    }
}

/// Add the rows that hold more than 0.
pub fn present<C: Cell>(data: &[u8], start: usize, found: &mut Vec<u16>) {
    every::<C>(data, start, found, |_, cell| cell != C::default());
}

#[inline(always)]
fn every<C: Cell>(
    data: &[u8],
    start: usize,
    found: &mut Vec<u16>,
    fits: impl Fn(usize, C) -> bool,
) {
    let mut row = start;
    for block in data.chunks(STEP * C::WIDTH) {
        let cells = || block.chunks_exact(C::WIDTH).map(C::read).enumerate();
        if cells().fold(false, |any, (at, cell)| any | fits(row + at, cell)) {
            let mut hits = [0_u16; STEP];
            let mut count = 0;
            for (at, cell) in cells() {
                hits[count % STEP] = (row + at) as u16;
                count += usize::from(fits(row + at, cell));
            }
            found.extend_from_slice(&hits[..count.min(STEP)]);
        }
        row += STEP;
    }
}
