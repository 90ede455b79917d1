//! Composed types ([`adt::kinds::composed`]): the definitions that the gateway has read, and how calls of
//! their operations become commands. The commands that define types are in `commands`.
//!
//! All definitions are one record of the store's own: a hash with the text of each definition, and with the
//! last version of each name that was dropped. A gateway reads it when a client calls an operation, and again
//! when a definition has changed, when the copy is old, or when it has no type or operation of the name. A
//! call by an old copy is a call that was made earlier: the value refuses it if it goes by a later version.

pub(in crate::gateway) mod commands;
pub(in crate::gateway) mod known;
mod reading;

pub(in crate::gateway) use known::Types;
