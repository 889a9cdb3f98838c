//! The native part of the backtest toolset: recording events, projecting them, and answering what they name.

pub mod append;
pub mod batch;
#[cfg(feature = "python")]
mod encode;
pub mod extension;
pub mod fact;
pub mod facts;
pub mod handles;
mod hash;
pub mod named;
pub mod project;
mod project_door;
#[cfg(feature = "python")]
mod python;
pub mod recorded;
#[cfg(feature = "python")]
pub mod tape;
pub mod turns;
pub mod zones;
