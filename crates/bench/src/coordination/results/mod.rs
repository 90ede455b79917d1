//! Results: figures of a point, predictions of the model, and how well they agree.

pub(in crate::coordination) mod agreement;
pub mod figures;
pub mod forecast;
pub(in crate::coordination) mod regions;
