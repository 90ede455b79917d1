//! Retwis, a social network: posts go to the timelines of all followers in one transaction, and
//! posts with many reposts are reposted more often.
//!
//! Records: `user:u` hash, `users:0` set, `followers:u` and `following:u` sets, `posts:u` set,
//! `post:p` hash, `reposts:p` set of the users that reposted it, `timeline:u` sorted set by time.
//!
//! With `--types`, `post:p` is a value of a composed type that has `reposts:p` as a part.

use super::graph::Graph;
use crate::args::RetwisArgs;
use crate::conditions;
use crate::load::random::Rng;
use crate::load::resp;
use crate::load::workload::{Ops, Shape, Workload};
use crate::report::{Report, fields, rounded};
use crate::servers::control::Control;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use wire::resp::ClientReply;

/// Posts that exist at the beginning, per hundred users.
const POSTS_PER_HUNDRED: usize = 25;
/// Index of the last post of a timeline that is viewed.
const SHOWN: &str = "9";
/// Members per command while loading.
const MEMBERS_MAX: usize = 500;

/// Type of a post, with the operations that users need.
const POST: &str = "\
type retwis_post
part about hash
part reposts set

op write author text
  hset about author $author text $text

op repost user
  sadd reposts $user

op show
  return hgetall about
  return scard reposts
";

/// Shares of the users' actions, and the mean number of reposts.
#[derive(Clone, Copy, Debug)]
struct Mix {
    /// Weights of the actions: new user, follow, post, view of the timeline.
    actions: [f64; 4],
    /// Mean number of reposts after a view of the timeline.
    reposts: f64,
}

const POST_HEAVY: Mix = Mix { actions: [0.29, 1.15, 2.3, 89.8], reposts: 0.071 };
const READ_HEAVY: Mix = Mix { actions: [0.075, 0.30, 0.46, 98.6], reposts: 0.0055 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    NewUser { user: u64 },
    Follow { follower: u64, followed: u64, undo: bool },
    Post { user: u64, post: u64 },
    Repost { user: u64, post: u64 },
    Timeline { user: u64 },
    Show { post: u64 },
}

const KINDS: [&str; 6] = ["new_user", "follow", "post", "repost", "timeline", "show"];

/// A transaction of the network.
#[derive(Clone, Debug)]
pub struct Transaction {
    deed: Deed,
    phase: u8,
    time: u64,
    /// Posts that a timeline named.
    seen: Vec<u64>,
    /// Number of reposts of a shown post.
    reposts: i64,
}

impl Transaction {
    fn new(deed: Deed, time: u64) -> Self {
        Self { deed, phase: 0, time, seen: Vec::new(), reposts: 0 }
    }
}

/// A user's visit to the timeline.
#[derive(Clone, Debug, Default)]
struct Visit {
    user: u64,
    /// Posts that are still to be shown.
    to_show: VecDeque<u64>,
    /// Posts that were shown, with the number of reposts of each.
    shown: Vec<(i64, u64)>,
    to_repost: Vec<u64>,
}

/// The network as far as the clients know it.
#[derive(Clone, Debug)]
pub struct Retwis {
    mix: Mix,
    /// Whether posts are of a composed type.
    typed: bool,
    users: u64,
    posts: u64,
    time: u64,
    visits: Vec<Visit>,
}

impl Retwis {
    /// Empties the server, and creates the users, their links and some posts.
    ///
    /// # Errors
    /// The server fails.
    fn load(args: &RetwisArgs, graph: &Graph, control: &mut Control) -> io::Result<Self> {
        let mix = if args.mix == "read-heavy" { READ_HEAVY } else { POST_HEAVY };
        let users = graph.users() as u64;
        let posts = graph.users() * POSTS_PER_HUNDRED / 100;
        control.call(&["FLUSHALL"])?;
        if args.types {
            control.call(&["TYPE.DEFINE", "retwis_post", POST])?;
        }
        let mut rng = Rng::new(args.common.seed);
        let mut timelines: Vec<Vec<u64>> = vec![Vec::new(); graph.users()];
        let mut authored: Vec<Vec<u64>> = vec![Vec::new(); graph.users()];
        let mut ops = Ops::default();
        let mut commands: Vec<Vec<u8>> = Vec::new();
        for post in 0..posts as u64 {
            let author = rng.below(users);
            push_post(&mut ops, author, post, args.types);
            authored[author as usize].push(post);
            let followers = &graph.followers[author as usize];
            followers.iter().for_each(|f| timelines[*f as usize].push(post));
        }
        (0..users).for_each(|user| push_user(&mut ops, user));
        commands.extend((0..ops.list.len()).map(|index| ops.command(index).to_vec()));
        control.load(commands.into_iter())?;
        let following = graph.following();
        let wide = |numbers: &[u32]| numbers.iter().map(|n| u64::from(*n)).collect::<Vec<_>>();
        for user in 0..graph.users() {
            let key = user as u64;
            let sets = [
                members("followers:", key, &wide(&graph.followers[user]), false),
                members("following:", key, &wide(&following[user]), false),
                members("posts:", key, &authored[user], false),
                members("timeline:", key, &timelines[user], true),
            ];
            control.load(sets.into_iter().flatten())?;
        }
        let posts = posts as u64;
        Ok(Self { mix, typed: args.types, users, posts, time: posts, visits: Vec::new() })
    }

    fn visit(&mut self, client: usize) -> &mut Visit {
        if self.visits.len() <= client {
            self.visits.resize(client + 1, Visit::default());
        }
        &mut self.visits[client]
    }

    fn choose(&mut self, rng: &mut Rng) -> Deed {
        match rng.weighted(&self.mix.actions) {
            0 => {
                self.users += 1;
                Deed::NewUser { user: self.users - 1 }
            }
            1 => {
                let (follower, followed) = (rng.below(self.users), rng.below(self.users));
                // Half of these remove a link again, so that the graph keeps its size.
                Deed::Follow { follower, followed, undo: rng.chance(0.5) }
            }
            2 => {
                self.posts += 1;
                Deed::Post { user: rng.below(self.users), post: self.posts - 1 }
            }
            _ => Deed::Timeline { user: rng.below(self.users) },
        }
    }

    /// Chooses reposts after the whole timeline was shown: the most reposted posts, a geometrically
    /// distributed number of them.
    fn decide_reposts(&mut self, client: usize, rng: &mut Rng) {
        let stop = 1.0 / (1.0 + self.mix.reposts);
        let visit = self.visit(client);
        visit.shown.sort_unstable();
        while !rng.chance(stop) {
            let Some((_, post)) = visit.shown.pop() else { break };
            visit.to_repost.push(post);
        }
        visit.shown.clear();
    }
}

fn push_user(ops: &mut Ops, user: u64) {
    let name = format!("user{user}");
    ops.write("HSET", ("user:", user), &[b"name", name.as_bytes(), b"password", b"secret"]);
    ops.write("SADD", ("users:", 0), &[user.to_string().as_bytes()]);
}

fn push_post(ops: &mut Ops, author: u64, post: u64, typed: bool) {
    let (author, post_text) = (author.to_string(), format!("What {author} says, number {post}"));
    if typed {
        let words: [&[u8]; 2] = [author.as_bytes(), post_text.as_bytes()];
        return ops.write("retwis_post.write", ("post:", post), &words);
    }
    let fields: [&[u8]; 4] = [b"author", author.as_bytes(), b"text", post_text.as_bytes()];
    ops.write("HSET", ("post:", post), &fields);
}

/// Commands that add numbers to a set, or to a sorted set with themselves as scores.
fn members(
    prefix: &'static str,
    key: u64,
    numbers: &[u64],
    sorted: bool,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let chunks: Vec<Vec<u64>> = numbers.chunks(MEMBERS_MAX).map(<[u64]>::to_vec).collect();
    chunks.into_iter().map(move |chunk| {
        let mut bytes = Vec::new();
        let per_member = 1 + usize::from(sorted);
        resp::header(&mut bytes, 2 + chunk.len() * per_member);
        resp::word(&mut bytes, if sorted { b"ZADD" } else { b"SADD" });
        resp::numbered(&mut bytes, prefix.as_bytes(), key);
        for number in chunk {
            (0..per_member).for_each(|_| resp::numbered(&mut bytes, b"", number));
        }
        bytes
    })
}

fn numbers(reply: Option<&ClientReply>) -> Vec<u64> {
    let number = |item: &ClientReply| match item {
        ClientReply::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    };
    match reply {
        Some(ClientReply::Array(items) | ClientReply::Set(items)) => {
            items.iter().filter_map(number).collect()
        }
        _ => Vec::new(),
    }
}

/// Value of a field of the reply of `HGETALL`.
fn field(reply: Option<&ClientReply>, name: &str) -> Option<u64> {
    let Some(ClientReply::Array(items)) = reply else { return None };
    let pair = items.chunks(2).find(|pair| pair[0] == ClientReply::Bulk(name.into()))?;
    numbers(Some(&ClientReply::Array(vec![pair.get(1)?.clone()]))).pop()
}

/// Adds a post to the timelines of followers, all at once.
fn push_timelines(ops: &mut Ops, followers: &[u64], post: u64, time: u64) {
    let (time, post) = (time.to_string(), post.to_string());
    for (index, follower) in followers.iter().enumerate() {
        ops.write("ZADD", ("timeline:", *follower), &[time.as_bytes(), post.as_bytes()]);
        if index > 0 {
            ops.join();
        }
    }
}

impl Workload for Retwis {
    type Txn = Transaction;
    const LOOKS: bool = true;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn begin(&mut self, client: usize, _now_ns: u64, rng: &mut Rng) -> Transaction {
        self.time += 1;
        let time = self.time;
        let visit = self.visit(client);
        let deed = if let Some(post) = visit.to_show.pop_front() {
            Deed::Show { post }
        } else if let Some(post) = visit.to_repost.pop() {
            Deed::Repost { user: visit.user, post }
        } else {
            self.choose(rng)
        };
        Transaction::new(deed, time)
    }

    fn kind(&self, txn: &Transaction) -> usize {
        match txn.deed {
            Deed::NewUser { .. } => 0,
            Deed::Follow { .. } => 1,
            Deed::Post { .. } => 2,
            Deed::Repost { .. } => 3,
            Deed::Timeline { .. } => 4,
            Deed::Show { .. } => 5,
        }
    }

    fn shape(&self, txn: &Transaction) -> Shape {
        match txn.deed {
            Deed::Timeline { .. } => Shape::Single,
            Deed::Show { .. } => Shape::Reads,
            _ => Shape::Updates,
        }
    }

    fn step(&mut self, txn: &mut Transaction, replies: &[ClientReply], ops: &mut Ops) -> bool {
        let phase = txn.phase;
        txn.phase += 1;
        match (txn.deed, phase) {
            (Deed::NewUser { user }, 0) => push_user(ops, user),
            (Deed::Follow { follower, followed, undo }, 0) => {
                let name = if undo { "SREM" } else { "SADD" };
                ops.write(name, ("followers:", followed), &[follower.to_string().as_bytes()]);
                ops.write(name, ("following:", follower), &[followed.to_string().as_bytes()]);
            }
            (Deed::Post { user, post }, 0) => {
                push_post(ops, user, post, self.typed);
                ops.write("SADD", ("posts:", user), &[post.to_string().as_bytes()]);
                ops.read("SMEMBERS", ("followers:", user), &[]);
            }
            (Deed::Repost { user, post }, 0) => {
                let (name, key) =
                    if self.typed { ("retwis_post.repost", "post:") } else { ("SADD", "reposts:") };
                ops.write(name, (key, post), &[user.to_string().as_bytes()]);
                ops.read("SMEMBERS", ("followers:", user), &[]);
            }
            (Deed::Post { post, .. } | Deed::Repost { post, .. }, 1) => {
                push_timelines(ops, &numbers(replies.first()), post, txn.time);
            }
            (Deed::Timeline { user }, 0) => {
                ops.read("ZRANGE", ("timeline:", user), &[b"0", SHOWN.as_bytes(), b"REV"]);
            }
            (Deed::Timeline { .. }, 1) => {
                txn.seen = numbers(replies.first());
                return false;
            }
            (Deed::Show { post }, 0) if self.typed => {
                ops.read("retwis_post.show", ("post:", post), &[]);
            }
            (Deed::Show { .. }, 1) if self.typed => {
                let Some(ClientReply::Array(shown)) = replies.first() else { return false };
                if let Some(ClientReply::Int(reposts)) = shown.last() {
                    txn.reposts = *reposts;
                }
                let author = field(shown.first(), "author").unwrap_or(0);
                ops.read("HGETALL", ("user:", author), &[]);
            }
            (Deed::Show { .. }, 2) if self.typed => return false,
            (Deed::Show { post }, 0) => ops.read("HGETALL", ("post:", post), &[]),
            (Deed::Show { post }, 1) => {
                let author = field(replies.first(), "author").unwrap_or(0);
                ops.read("HGETALL", ("user:", author), &[]);
                ops.read("SCARD", ("reposts:", post), &[]);
            }
            (Deed::Show { .. }, 2) => {
                if let Some(ClientReply::Int(reposts)) = replies.last() {
                    txn.reposts = *reposts;
                }
                return false;
            }
            _ => return false,
        }
        true
    }

    fn restart(&mut self, txn: &mut Transaction) {
        txn.phase = 0;
        txn.seen.clear();
    }

    fn committed(&mut self, client: usize, txn: Transaction, _now_ns: u64, rng: &mut Rng) {
        match txn.deed {
            Deed::Timeline { user } => {
                let visit = self.visit(client);
                visit.user = user;
                visit.to_show = txn.seen.into();
            }
            Deed::Show { post } => {
                let visit = self.visit(client);
                visit.shown.push((txn.reposts, post));
                if visit.to_show.is_empty() {
                    self.decide_reposts(client, rng);
                }
            }
            _ => {}
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(args: &RetwisArgs, program: &Path) -> io::Result<Report> {
    let graph = Graph::kronecker(args.scale, args.edge_factor, &mut Rng::new(args.common.seed));
    if graph.users() == 0 {
        return Err(io::Error::other("the graph is empty: choose a larger scale"));
    }
    let fields = fields([
        ("types", Value::from(args.types)),
        ("workload", Value::from("retwis")),
        ("mix", Value::from(args.mix.as_str())),
        ("users", Value::from(graph.users())),
        ("links", Value::from(graph.links())),
    ]);
    let mut report =
        conditions::run(&args.common, program, &fields, |control, load: Option<Retwis>| {
            // The network persists from cell to cell.
            match load {
                Some(mut load) => {
                    load.visits.clear();
                    Ok(load)
                }
                None => Retwis::load(args, &graph, control),
            }
        })?;
    let most = graph.followers.iter().map(Vec::len).max().unwrap_or(0);
    report.more.insert("most_followers".into(), most.into());
    let mean = graph.links() as f64 / graph.users() as f64;
    report.more.insert("mean_followers".into(), rounded(mean));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Retwis {
        Retwis { mix: POST_HEAVY, typed: false, users: 10, posts: 5, time: 5, visits: Vec::new() }
    }

    fn bulk(text: &str) -> ClientReply {
        ClientReply::Bulk(text.into())
    }

    #[test]
    fn a_post_goes_to_all_followers_at_once() {
        let mut network = network();
        let mut txn = Transaction::new(Deed::Post { user: 3, post: 5 }, 9);
        let mut ops = Ops::default();
        assert!(network.step(&mut txn, &[], &mut ops));
        assert_eq!(ops.list.iter().filter(|op| op.read).count(), 1);
        ops.clear();
        let followers = ClientReply::Array(vec![bulk("1"), bulk("2"), bulk("7")]);
        assert!(network.step(&mut txn, &[followers], &mut ops));
        let joined: Vec<bool> = ops.list.iter().map(|op| op.joined).collect();
        assert_eq!(joined, [false, true, true]);
        ops.clear();
        assert!(!network.step(&mut txn, &[], &mut ops));
        network.restart(&mut txn);
        assert!(network.step(&mut txn, &[], &mut ops));
    }

    #[test]
    fn a_timeline_is_shown_post_by_post() {
        let mut network = network();
        let mut rng = Rng::new(1);
        let mut txn = Transaction::new(Deed::Timeline { user: 4 }, 9);
        let mut ops = Ops::default();
        assert!(network.step(&mut txn, &[], &mut ops));
        let posts = ClientReply::Array(vec![bulk("2"), bulk("0")]);
        assert!(!network.step(&mut txn, &[posts], &mut ops));
        network.committed(0, txn, 0, &mut rng);
        for post in [2, 0] {
            let mut show = network.begin(0, 0, &mut rng);
            assert_eq!(show.deed, Deed::Show { post });
            ops.clear();
            assert!(network.step(&mut show, &[], &mut ops));
            let hash = ClientReply::Array(vec![bulk("author"), bulk("8"), bulk("text"), bulk("x")]);
            ops.clear();
            assert!(network.step(&mut show, &[hash], &mut ops));
            assert!(ops.command(0).ends_with(b"$6\r\nuser:8\r\n"));
            let replies = [ClientReply::Array(Vec::new()), ClientReply::Int(4)];
            assert!(!network.step(&mut show, &replies, &mut ops));
            assert_eq!(show.reposts, 4);
            network.committed(0, show, 0, &mut rng);
        }
        assert!(network.visits[0].shown.is_empty());
    }

    #[test]
    fn reposts_are_as_many_as_published_and_of_the_most_reposted() {
        let mut network = network();
        let mut rng = Rng::new(1);
        let mut reposts = 0;
        for _ in 0..50_000 {
            network.visit(0).shown = vec![(1, 10), (9, 11), (3, 12)];
            network.decide_reposts(0, &mut rng);
            let visit = network.visit(0);
            assert!(visit.to_repost.first().is_none_or(|post| *post == 11));
            reposts += visit.to_repost.len();
            visit.to_repost.clear();
        }
        let mean = reposts as f64 / 50_000.0;
        assert!((mean - 0.071).abs() < 0.005, "{mean}");
    }
}
