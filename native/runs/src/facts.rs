//! What consecutive events are and name, by columns: the rows of `fact`.

/// All columns have one length; 0 stands for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub types: Vec<u8>,
    pub times: Vec<i64>,
    pub severities: Vec<u8>,
    pub categories: Vec<u8>,
    /// The parent's seq.
    pub parents: Vec<u64>,
    /// Numbers of `text`.
    pub symbols: Vec<u32>,
    pub orders: Vec<u32>,
    pub positions: Vec<u32>,
    pub indicators: Vec<u32>,
    /// Numbers of `slot`.
    pub slots: Vec<u32>,
    /// The bits HAS_WARNING (1) and HAS_ERROR (2).
    pub errors: Vec<u8>,
}

impl Facts {
    pub fn len(&self) -> usize {
        self.types.len()
    }

    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}
