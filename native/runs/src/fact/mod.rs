//! The table `fact`, read from the zones.

mod ahead;
mod cache;
mod module;
mod plan;
mod query;
mod range;
mod store;
mod stretch;
mod walk;

pub use module::register;
