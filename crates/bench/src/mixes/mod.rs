//! Mixes of transactions from published studies: an auction site, a social network and sets.

pub mod auction;
pub mod graph;
pub mod rawmix;
pub mod retwis;
pub mod rubis;
