//! The properties that mean something beyond their value.

pub type Role = u8;

pub const NONE: Role = 0;
pub const SYMBOL: Role = 1;
pub const ORDER: Role = 2;
pub const INDICATOR: Role = 3;
pub const POSITION: Role = 4;
pub const PARAMETERS: Role = 5;
pub const STATE_TYPE: Role = 6;
pub const STATUS: Role = 7;
pub const QUANTITY: Role = 8;
pub const AFTER: Role = 9;
pub const PRICE: Role = 10;
pub const REASON: Role = 11;
pub const RISK: Role = 12;
pub const VALUE: Role = 13;
pub const RAW: Role = 14;
pub const COUNT: usize = 15;

/// The name of each role.
pub const NAMES: [&str; COUNT] = [
    "",
    "SecuritySymbol",
    "OrderId",
    "IndicatorName",
    "PositionId",
    "Parameters",
    "StateType",
    "OrderStatus",
    "Quantity",
    "StateAfter",
    "Price",
    "RejectionReason",
    "RiskType",
    "Value",
    "_raw",
];

/// The role of a name that is given with its quotes and its colon.
pub fn of(key: &[u8]) -> Role {
    let name = key
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\":"))
        .unwrap_or_default();
    NAMES
        .iter()
        .skip(1)
        .position(|own| own.as_bytes() == name)
        .map_or(NONE, |place| place as Role + 1)
}
