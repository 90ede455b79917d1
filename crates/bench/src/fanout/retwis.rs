//! A social network whose requests dispatch as many commands at once as their data allow: a command
//! waits only for replies that it needs.
//!
//! The mix is that of the published study of pipelines over several shards. The numbers of posts
//! and followers follow from its latencies of sequential commands, divided by that of a single
//! command: about a hundred commands for a timeline, 25 for a profile, 55 for a post.
//!
//! Records: `name:u` string, `user:u` hash, `auth:u` string, `followers:u` and `following:u` sets,
//! `posts:u` and `timeline:u` lists of `post author`, newest first, `post:p` string.

use crate::load::random::Rng;
use crate::load::resp;
use crate::load::workload::{Ops, Shape, Workload};
use wire::resp::ClientReply;

const USERS: u64 = 1_000;
/// Number of users that each user follows at the beginning.
const FOLLOWS: u64 = 50;
/// Posts of each user at the beginning, which a profile shows.
const PROFILE_POSTS: usize = 12;
/// Posts that a timeline shows.
const TIMELINE_POSTS: usize = 50;

const KINDS: [&str; 7] = ["register", "login", "logout", "post", "profile", "follow", "timeline"];
/// Percentages of the kinds, in their order.
const MIX: [f64; 7] = [1.0, 2.0, 2.0, 10.0, 15.0, 20.0, 50.0];

const REGISTER: usize = 0;
const LOGIN: usize = 1;
const LOGOUT: usize = 2;
const POST: usize = 3;
const PROFILE: usize = 4;
const FOLLOW: usize = 5;

/// The load.
#[derive(Debug)]
pub struct Retwis {
    users: u64,
    posts: u64,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    kind: usize,
    user: u64,
    /// Another user, or the number of a new post.
    other: u64,
    phase: u32,
}

impl Retwis {
    /// Creates the initial network.
    pub fn new() -> Self {
        Self { users: USERS, posts: USERS * PROFILE_POSTS as u64 }
    }

    /// Commands that create it.
    pub fn setup() -> Vec<Vec<u8>> {
        let mut commands = Vec::new();
        let mut push = |words: &[&[u8]]| {
            let mut bytes = Vec::new();
            resp::command(&mut bytes, words);
            commands.push(bytes);
        };
        for user in 0..USERS {
            let name = user.to_string();
            let key = |prefix: &str| format!("{prefix}:{user}").into_bytes();
            push(&[b"SET", &key("name"), name.as_bytes()]);
            push(&[b"HSET", &key("user"), b"name", name.as_bytes(), b"password", b"secret"]);
            let followers = (1..=FOLLOWS).map(|step| (user + USERS - step) % USERS);
            let followers: Vec<String> = followers.map(|user| user.to_string()).collect();
            let mut words: Vec<Vec<u8>> = vec![b"SADD".to_vec(), key("followers")];
            words.extend(followers.into_iter().map(String::into_bytes));
            push(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut lists = [("posts", Vec::new()), ("timeline", Vec::new())];
            for number in 0..PROFILE_POSTS as u64 {
                let post = user * PROFILE_POSTS as u64 + number;
                push(&[b"SET", format!("post:{post}").as_bytes(), b"The text of the post"]);
                lists[0].1.push(format!("{post} {user}").into_bytes());
            }
            for step in 1..=TIMELINE_POSTS as u64 {
                let author = (user + step) % USERS;
                let post = author * PROFILE_POSTS as u64;
                lists[1].1.push(format!("{post} {author}").into_bytes());
            }
            for (name, members) in lists {
                let mut words = vec![b"RPUSH".to_vec(), key(name)];
                words.extend(members);
                push(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
        }
        commands
    }
}

fn texts(reply: Option<&ClientReply>) -> Vec<String> {
    let text = |item: &ClientReply| match item {
        ClientReply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    match reply {
        Some(ClientReply::Array(items) | ClientReply::Set(items)) => {
            items.iter().filter_map(text).collect()
        }
        _ => Vec::new(),
    }
}

/// Adds two commands for each post of a list: the post, and its author.
fn show(ops: &mut Ops, list: Option<&ClientReply>) {
    for entry in texts(list) {
        let mut numbers = entry.split(' ').filter_map(|number| number.parse().ok());
        let (Some(post), Some(author)) = (numbers.next(), numbers.next()) else { continue };
        ops.read("GET", ("post:", post), &[]);
        ops.read("HGET", ("user:", author), &[b"name"]);
    }
}

impl Workload for Retwis {
    type Txn = Request;
    const LOOKS: bool = true;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn begin(&mut self, _client: usize, _now_ns: u64, rng: &mut Rng) -> Request {
        let kind = rng.weighted(&MIX);
        let (mut user, mut other) = (rng.below(USERS), rng.below(USERS));
        match kind {
            REGISTER => {
                user = self.users;
                self.users += 1;
            }
            POST => {
                other = self.posts;
                self.posts += 1;
            }
            _ => {}
        }
        Request { kind, user, other, phase: 0 }
    }

    fn kind(&self, request: &Request) -> usize {
        request.kind
    }

    fn shape(&self, _: &Request) -> Shape {
        Shape::Updates
    }

    fn step(&mut self, request: &mut Request, replies: &[ClientReply], ops: &mut Ops) -> bool {
        let (user, other) = (request.user, request.other);
        let (user_text, other_text) = (user.to_string(), other.to_string());
        let phase = request.phase;
        request.phase += 1;
        match (request.kind, phase) {
            (REGISTER, 0) => {
                let name = user_text.as_bytes();
                ops.write("SET", ("name:", user), &[name]);
                ops.write("HSET", ("user:", user), &[b"name", name, b"password", b"secret"]);
                ops.write("SADD", ("followers:", user), &[name]);
                ops.write("SADD", ("following:", user), &[name]);
                ops.write("SET", ("auth:", user), &[b"token"]);
            }
            (LOGIN, 0) => ops.read("GET", ("name:", user), &[]),
            (LOGIN, 1) => ops.read("HGET", ("user:", user), &[b"password"]),
            // The first step checks the password.
            (LOGIN, 2) => ops.write("SET", ("auth:", user), &[b"token"]),
            (LOGOUT, 0) => ops.read("GET", ("auth:", user), &[]),
            (LOGOUT, 1) => {
                ops.write("DEL", ("auth:", user), &[]);
                ops.write("HSET", ("user:", user), &[b"seen", b"now"]);
            }
            (POST, 0) => ops.read("SMEMBERS", ("followers:", user), &[]),
            (POST, 1) => {
                let entry = format!("{other} {user}").into_bytes();
                ops.write("SET", ("post:", other), &[b"The text of the post"]);
                ops.write("LPUSH", ("posts:", user), &[&entry]);
                for follower in texts(replies.first()) {
                    let Ok(follower) = follower.parse() else { continue };
                    ops.write("LPUSH", ("timeline:", follower), &[&entry]);
                }
            }
            (PROFILE, 0) => {
                let last = (PROFILE_POSTS - 1).to_string();
                ops.read("LRANGE", ("posts:", user), &[b"0", last.as_bytes()]);
            }
            (FOLLOW, 0) => {
                ops.write("SADD", ("followers:", other), &[user_text.as_bytes()]);
                ops.write("SADD", ("following:", user), &[other_text.as_bytes()]);
            }
            (LOGIN | LOGOUT | POST | FOLLOW | REGISTER, _) => return false,
            (_, 0) => {
                let last = (TIMELINE_POSTS - 1).to_string();
                ops.read("LRANGE", ("timeline:", user), &[b"0", last.as_bytes()]);
            }
            (_, 1) => show(ops, replies.first()),
            _ => return false,
        }
        !ops.list.is_empty()
    }

    fn restart(&mut self, request: &mut Request) {
        request.phase = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> ClientReply {
        ClientReply::Bulk(text.into())
    }

    fn steps(kind: usize, replies: &[ClientReply]) -> Vec<usize> {
        let mut network = Retwis::new();
        let mut request = Request { kind, user: 3, other: 4, phase: 0 };
        let (mut sizes, mut ops) = (Vec::new(), Ops::default());
        while network.step(&mut request, replies, &mut ops) {
            sizes.push(ops.list.len());
            ops.clear();
        }
        sizes
    }

    #[test]
    fn what_depends_on_a_reply_comes_in_a_later_step() {
        let entries: Vec<ClientReply> = (0..50).map(|i| bulk(&format!("{i} 7"))).collect();
        let timeline = [ClientReply::Array(entries)];
        assert_eq!(steps(6, &timeline), [1, 100]);
        assert_eq!(steps(PROFILE, &[ClientReply::Array(vec![bulk("1 2")])]), [1, 2]);
        let followers = [ClientReply::Array(vec![bulk("1"), bulk("2"), bulk("9")])];
        assert_eq!(steps(POST, &followers), [1, 5]);
        assert_eq!(steps(LOGIN, &[bulk("x")]), [1, 1, 1]);
        assert_eq!(steps(LOGOUT, &[bulk("x")]), [1, 2]);
        assert_eq!((steps(FOLLOW, &[]), steps(REGISTER, &[])), (vec![2], vec![5]));
    }

    #[test]
    fn the_network_is_there_in_the_beginning() {
        let commands = Retwis::setup();
        assert_eq!(commands.len(), (USERS as usize) * (5 + PROFILE_POSTS));
        assert_eq!(MIX.iter().sum::<f64>(), 100.0);
    }
}
