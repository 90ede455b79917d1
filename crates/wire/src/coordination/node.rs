//! Nodes of the coordination service, as snapshots hold them.

use super::{
    get_acl, get_i32, get_i64, get_optional, get_zxid, put_acl, put_i32, put_i64, put_optional,
    put_zxid,
};
use crate::bytes::{Form, Reader};
use adt::Corrupt;
use engine::coordination::tree::Znode;
use engine::coordination::tree::acl::Rules;

/// A node, without its children's names.
pub(crate) fn put_node(node: &Znode, out: &mut Vec<u8>) {
    put_optional(Form::Wide, node.data.as_ref(), out);
    put_acl(Form::Wide, &node.rules.list(), out);
    [node.czxid, node.mzxid, node.pzxid].into_iter().for_each(|zxid| put_zxid(zxid, out));
    [node.ctime_ms, node.mtime_ms].into_iter().for_each(|ms| put_i64(ms, out));
    [node.version, node.aversion, node.born].into_iter().for_each(|count| put_i32(count, out));
    put_i64(node.owner, out);
}

pub(crate) fn get_node(reader: &mut Reader<'_>) -> Result<Znode, Corrupt> {
    Ok(Znode {
        data: get_optional(reader)?,
        rules: Rules::restored(get_acl(reader)?),
        czxid: get_zxid(reader)?,
        mzxid: get_zxid(reader)?,
        pzxid: get_zxid(reader)?,
        ctime_ms: get_i64(reader)?,
        mtime_ms: get_i64(reader)?,
        version: get_i32(reader)?,
        aversion: get_i32(reader)?,
        born: get_i32(reader)?,
        owner: get_i64(reader)?,
        ..Znode::default()
    })
}
