//! The data types, one file each.

pub mod bag;
pub mod barrier;
pub mod composed;
pub mod counter;
pub mod extension;
pub mod hash;
pub mod list;
pub mod lock;
pub mod log;
pub mod set;
pub mod stream;
pub mod string;
pub mod topk;
pub mod uid;
pub mod zset;
