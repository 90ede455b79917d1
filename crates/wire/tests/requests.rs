//! Commands: round trips, arrival in pieces, error texts, limits.

use proptest::prelude::*;
use wire::resp::{Limits, ProtocolError, RequestDecoder, encode_command};

type Words = Vec<Vec<u8>>;

/// Feeds `bytes` as they arrive in pieces that end at `cuts`, as a connection does: complete
/// frames are dropped from the front.
fn feed(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> Result<(Vec<Words>, usize), ProtocolError> {
    let mut decoder = RequestDecoder::new();
    let mut commands = Vec::new();
    let mut at = 0;
    for cut in cuts.into_iter().chain([bytes.len()]) {
        let cut = cut.min(bytes.len()).max(at);
        while let Some(parsed) = decoder.next(&bytes[at..cut], limits)? {
            assert!(parsed.consumed > 0 && parsed.consumed <= cut - at);
            if let Some(args) = decoder.args(&bytes[at..cut]) {
                commands.push(args.iter_from(0).map(<[u8]>::to_vec).collect());
            }
            at += parsed.consumed;
        }
        assert!(decoder.args(&bytes[at..cut]).is_none() || at == cut, "no words of half a frame");
    }
    Ok((commands, at))
}

fn all(bytes: &[u8]) -> Result<Vec<Words>, ProtocolError> {
    feed(bytes, [], &Limits::default()).map(|(commands, _)| commands)
}

fn words(line: &str) -> Words {
    line.split(' ').map(|w| w.as_bytes().to_vec()).collect()
}

fn text(bytes: &[u8]) -> String {
    all(bytes).unwrap_err().to_string()
}

#[test]
fn a_pipeline_gives_its_commands() {
    let bytes = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n\
                  *2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n";
    let expected: Vec<Words> = vec![
        words("PING"),
        vec![b"SET".to_vec(), b"k".to_vec(), b"".to_vec()],
        vec![b"GET".to_vec(), b"a\r\nb".to_vec()],
    ];
    assert_eq!(all(bytes).unwrap(), expected);
}

#[test]
fn every_split_gives_the_same() {
    let mut bytes = b"*0\r\n*-1\r\nset \"a b\" 'c'\r\n\r\n\n".to_vec();
    encode_command([b"SET".to_vec(), b"key".to_vec(), vec![b'v'; 120]], &mut bytes);
    bytes.extend_from_slice(b"*0\r\nPING\n*-7\r\n");
    encode_command(["ZADD", "k", "1000", "m"], &mut bytes);
    let whole = all(&bytes).unwrap();
    assert_eq!(whole.len(), 4);
    let limits = Limits::default();
    for cut in 0..bytes.len() {
        assert_eq!(feed(&bytes, [cut], &limits), Ok((whole.clone(), bytes.len())), "at {cut}");
    }
    assert_eq!(feed(&bytes, 0..bytes.len(), &limits), Ok((whole, bytes.len())));
}

#[test]
fn empty_frames_hold_no_command() {
    for bytes in [&b"*0\r\n"[..], b"*-1\r\n", b"*-5\r\n", b"\r\n", b"\n", b"  \t \r\n"] {
        let mut decoder = RequestDecoder::new();
        let parsed = decoder.next(bytes, &Limits::default()).unwrap().unwrap();
        assert_eq!(parsed.consumed, bytes.len());
        assert!(decoder.args(bytes).is_none());
    }
}

#[test]
fn inline_commands_follow_the_quoting_of_redis() {
    for (line, expected) in [
        ("PING", vec![&b"PING"[..]]),
        ("  set   a\tb  ", vec![b"set", b"a", b"b"]),
        (r#"set k "a b""#, vec![b"set", b"k", b"a b"]),
        (r#"set k "\x00\xfF\n\r\t\b\a\\\"\q""#, vec![b"set", b"k", b"\x00\xff\n\r\t\x08\x07\\\"q"]),
        (r#"set k "\xzz""#, vec![b"set", b"k", b"xzz"]),
        (r"set k 'a \' \n'", vec![b"set", b"k", br"a ' \n"]),
        (r#"set k """#, vec![b"set", b"k", b""]),
        (r#"foo"bar" x"#, vec![b"foobar", b"x"]),
    ] {
        let found = all(format!("{line}\r\n").as_bytes()).unwrap();
        assert_eq!(found, vec![expected.iter().map(|w| w.to_vec()).collect::<Words>()], "{line}");
    }
}

#[test]
fn errors_have_the_texts_of_redis() {
    for (bytes, expected) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1\rx", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
        (b"*1\r\nx", "expected '$', got 'x'"),
        (b"*1\r\n\n", "expected '$', got '\\n'"),
        (b"*1\r\n$1\r\nabcd", "expected CR LF after a bulk string"),
        (b"set \"a\r\n", "unbalanced quotes in request"),
        (b"set 'a\r\n", "unbalanced quotes in request"),
        (b"set \"a\"b\r\n", "unbalanced quotes in request"),
        (b"set 'a'b\r\n", "unbalanced quotes in request"),
    ] {
        assert_eq!(text(bytes), format!("Protocol error: {expected}"), "{}", bytes.escape_ascii());
        assert_eq!(all(bytes), feed(bytes, 0..bytes.len(), &Limits::default()).map(|(c, _)| c));
    }
    let mut long = b"*".to_vec();
    long.resize(70_000, b'1');
    assert_eq!(text(&long), "Protocol error: too big mbulk count string");
    long.splice(0..1, *b"*1\r\n$");
    assert_eq!(text(&long), "Protocol error: too big bulk count string");
    assert_eq!(text(&vec![b'a'; 70_000]), "Protocol error: too big inline request");
}

#[test]
fn limits_hold_at_the_limit_and_one_above() {
    let limits = Limits {
        bulk_max_bytes: 8,
        words_max: 3,
        frame_max_bytes: 40,
        inline_max_bytes: 20,
        skipped_max_bytes: 50,
        authenticated: true,
    };
    let run = |bytes: &[u8]| feed(bytes, [], &limits);
    assert_eq!(run(b"*1\r\n$8\r\n12345678\r\n").unwrap().1, 18);
    assert_eq!(run(b"*1\r\n$9\r\n"), Err(ProtocolError::TooLongBulk(8)));
    assert_eq!(run(b"*1\r\n$50\r\n"), Err(ProtocolError::TooLongBulk(8)));
    assert_eq!(run(b"*1\r\n$51\r\n"), Err(ProtocolError::InvalidBulkLength));
    assert!(run(b"*3\r\n").is_ok());
    assert_eq!(run(b"*4\r\n"), Err(ProtocolError::TooManyWords(3)));
    assert_eq!(run(b"a b c\r\n").unwrap().0.len(), 1);
    assert_eq!(run(b"a b c d\r\n"), Err(ProtocolError::TooManyWords(3)));
    // 4 bytes of count, then 6 bytes around each word.
    let fits = b"*3\r\n$6\r\n123456\r\n$6\r\n123456\r\n$6\r\n123456\r\n";
    assert_eq!(fits.len(), 40);
    assert_eq!(run(fits).unwrap().1, 40);
    let above = b"*3\r\n$6\r\n123456\r\n$6\r\n123456\r\n$7\r\n";
    assert_eq!(run(above), Err(ProtocolError::TooBigRequest(40)));
    assert_eq!(run(b"12345678901234567890\n").unwrap().0.len(), 1);
    assert_eq!(run(b"123456789012345678901\n"), Err(ProtocolError::TooBigInline));
    assert_eq!(run(b"123456789012345678901"), Err(ProtocolError::TooBigInline));
    assert_eq!(run(b"12345678901234567890"), Ok((vec![], 0)));
}

/// Frames and errors that a decoder finds, if it goes on after commands that are too large.
fn skim(bytes: &[u8], cuts: impl IntoIterator<Item = usize>, limits: &Limits) -> Vec<String> {
    let (mut decoder, mut found, mut at) = (RequestDecoder::new(), Vec::new(), 0);
    for cut in cuts.into_iter().chain([bytes.len()]) {
        let cut = cut.min(bytes.len()).max(at);
        loop {
            let skipped = decoder.is_skipping();
            match decoder.next(&bytes[at..cut], limits) {
                Ok(None) => break,
                Ok(Some(parsed)) => {
                    assert!(parsed.consumed > 0 && parsed.consumed <= cut - at);
                    let words = decoder.args(&bytes[at..cut]).map(|args| args.len());
                    found.extend(words.map(|words| words.to_string()));
                    at += parsed.consumed;
                }
                Err(error) => {
                    found.push(error.to_string());
                    if skipped || !decoder.is_skipping() {
                        return found;
                    }
                }
            }
        }
        assert!(!decoder.is_skipping() || cut - at < 40, "what is skipped is not kept");
    }
    found
}

#[test]
fn behind_a_command_that_is_too_large_the_next_one_is_found() {
    let limits =
        Limits { bulk_max_bytes: 30, words_max: 4, frame_max_bytes: 90, ..Limits::default() };
    let long = "x".repeat(500);
    for (words, error) in [
        (vec!["SET", "k", &long], "invalid bulk length, an argument has at most 30 bytes"),
        (vec![&long, "", &long], "invalid bulk length, an argument has at most 30 bytes"),
        (vec!["a", "b", "c", "", &long], "invalid multibulk length, a command has at most 4 words"),
        (vec![&long[..30]; 4], "too big request, at most 90 bytes are allowed"),
    ] {
        let mut bytes = b"PING\r\n".to_vec();
        encode_command(&words, &mut bytes);
        encode_command(["GET", "k"], &mut bytes);
        let expected = ["1".to_owned(), format!("Protocol error: {error}"), "2".to_owned()];
        assert_eq!(skim(&bytes, [], &limits), expected);
        assert_eq!(skim(&bytes, 0..bytes.len(), &limits), expected);
        for cut in 0..bytes.len() {
            assert_eq!(skim(&bytes, [cut], &limits), expected, "at {cut}");
        }
        let strangers = Limits { authenticated: false, ..limits };
        assert_eq!(skim(&bytes, [], &strangers).len(), 2, "nothing is read on over for strangers");
    }
}

#[test]
fn a_command_that_is_too_large_ends_where_its_framing_does() {
    let limits = Limits { bulk_max_bytes: 3, ..Limits::default() };
    for (bytes, expected) in [
        (&b"*2\r\n$4\r\nabcdXX"[..], "expected CR LF after a bulk string"),
        (b"*2\r\n$4\r\nabcd\r\n:1\r\n", "expected '$', got ':'"),
        (b"*2\r\n$4\r\nabcd\r\n$x\r\n", "invalid bulk length"),
        (b"*2\r\n$4\r\nabcd\r\n$-1\r\n", "invalid bulk length"),
        (b"*2\r\n$4\r\nabcd\r\n$9999999999\r\n", "invalid bulk length"),
    ] {
        let found = skim(bytes, [], &limits);
        assert_eq!(found.last().unwrap(), &format!("Protocol error: {expected}"));
        assert_eq!(skim(bytes, 0..bytes.len(), &limits), found);
    }
    let endless = [b"*2\r\n$4\r\nabcd\r\n$".as_slice(), &[b'1'; 50]].concat();
    let found = skim(&endless, 0..endless.len(), &limits);
    assert_eq!(found.last().unwrap(), "Protocol error: too big bulk count string");
}

#[test]
fn half_a_command_can_be_given_up() {
    let mut bytes = Vec::new();
    encode_command(["SET", "key", "0123456789"], &mut bytes);
    let limits = Limits::default();
    for half in 1..bytes.len() {
        let mut decoder = RequestDecoder::new();
        assert_eq!(decoder.next(&bytes[..half], &limits), Ok(None));
        let known = bytes[..half].contains(&b'\n');
        assert_eq!(decoder.skip_rest(), known, "at {half}");
        if known {
            let mut at = 0;
            while let Some(parsed) = decoder.next(&bytes[at..], &limits).unwrap() {
                assert!(decoder.args(&bytes[at..]).is_none());
                at += parsed.consumed;
            }
            assert!(at == bytes.len() && !decoder.is_skipping());
        }
    }
    assert!(!RequestDecoder::new().skip_rest(), "no command has begun");
}

#[test]
fn strangers_get_less_room() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let run = |bytes: &[u8]| feed(bytes, [], &limits);
    assert!(run(b"*10\r\n").is_ok());
    assert_eq!(run(b"*11\r\n").unwrap_err(), ProtocolError::UnauthenticatedWords);
    assert_eq!(run(b"1 2 3 4 5 6 7 8 9 10 11\r\n"), Err(ProtocolError::UnauthenticatedWords));
    assert!(run(b"*1\r\n$16384\r\n").is_ok());
    assert_eq!(
        run(b"*1\r\n$16385\r\n").unwrap_err().to_string(),
        "Protocol error: unauthenticated bulk length"
    );
}

#[test]
fn a_frame_that_trickles_in_is_not_searched_again() {
    // 200,000 words in pieces of 8 bytes: minutes if every piece started from the beginning.
    let mut bytes = Vec::new();
    encode_command(vec!["ab"; 200_000], &mut bytes);
    let (commands, at) = feed(&bytes, (0..bytes.len()).step_by(8), &Limits::default()).unwrap();
    assert_eq!((commands.len(), commands[0].len(), at), (1, 200_000, bytes.len()));
    // One long word, byte by byte.
    let mut bytes = Vec::new();
    encode_command([vec![b'x'; 1 << 20]], &mut bytes);
    let (commands, _) = feed(&bytes, 0..bytes.len(), &Limits::default()).unwrap();
    assert_eq!(commands[0][0].len(), 1 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_round_trip_in_any_pieces(
        commands in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..150), 1..12), 0..6),
        cuts in prop::collection::btree_set(0usize..4000, 0..20),
    ) {
        let mut bytes = Vec::new();
        for command in &commands {
            encode_command(command, &mut bytes);
        }
        prop_assert_eq!(feed(&bytes, cuts, &Limits::default()), Ok((commands, bytes.len())));
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same(
        bytes in prop::collection::vec(
            prop::sample::select(&b"*$0123\r\n\r\n -ax\"'\\"[..]), 0..60),
        cuts in prop::collection::btree_set(0usize..60, 0..20),
    ) {
        let limits = Limits { words_max: 20, bulk_max_bytes: 30, ..Limits::default() };
        prop_assert_eq!(feed(&bytes, [], &limits), feed(&bytes, cuts, &limits));
    }
}
