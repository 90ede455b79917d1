//! Settings and the configurations that result from them.

use super::peer_tls::PeerTlsSettings;
use super::*;

fn file(text: &str) -> Result<Settings, ConfigError> {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("claret.toml");
    std::fs::write(&path, text).unwrap();
    Settings::from_file(&path)
}

#[test]
fn a_file_is_read() {
    let settings = file(
        "dir = 'x'\nport = 7000\ndurability = 'everysec'\nmaxmemory = '2gb'\npassword = 's'\n\
         [tls]\nport = 7001\ncert = 'c'\nkey = 'k'\n\
         [[users]]\nname = 'a'\npassword = 'p'\nrules = ['+@all', '~*']\n",
    )
    .unwrap();
    assert_eq!(settings.port, Some(7000));
    assert_eq!(settings.maxmemory, Some(Bytes(2 << 30)));
    let options = Options::resolve(settings).unwrap();
    assert_eq!(options.durability, Durability::Everysec);
    assert_eq!(options.users[0].rules.len(), 2);
    assert!(options.requires_auth());
    assert!(!format!("{options:?}").contains("\"p\""), "passwords do not print");
}

/// Contents of the sample file, `deploy/claret.toml`, with all of its settings enabled.
fn everything_in_the_file_to_start_from() -> String {
    let is_setting = |text: &&str| text.starts_with(|c: char| c.is_lowercase() || c == '[');
    let on = |line| str::strip_prefix(line, "#").filter(is_setting).unwrap_or(line);
    START.lines().map(on).collect::<Vec<&str>>().join("\n")
}

const START: &str = include_str!("../../../../deploy/claret.toml");

#[test]
fn the_file_to_start_from_names_every_setting() {
    assert_eq!(file(START).unwrap(), Settings::default(), "it changes nothing");
    // Every field is listed, without `..`: a new setting must be added to the file.
    let Settings {
        dir,
        bind,
        port,
        zookeeper_port,
        zookeeper_min_session_timeout_ms,
        zookeeper_max_session_timeout_ms,
        zookeeper_shards,
        zookeeper_connections_per_address,
        zookeeper_container_check_ms,
        shards,
        placement,
        workers,
        durability,
        cc,
        order,
        transaction_idle_timeout,
        transaction_timeout,
        maxmemory,
        maxmemory_log,
        maxclients,
        password,
        users,
        tls,
        insecure,
        metrics_port,
        synchrony,
        synchrony_dir,
        synchrony_keep_days,
        snapshot_log_bytes,
        log_level,
        leader_wait_ms,
        close_on_lost_leader,
        notify_keyspace_events,
        cluster,
    } = file(&everything_in_the_file_to_start_from()).unwrap();
    assert!(dir.is_some() && bind.is_some() && port.is_some() && shards.is_some());
    assert!(
        placement.is_some()
            && workers.is_some()
            && durability.is_some()
            && cc.is_some()
            && maxmemory.is_some()
    );
    assert!(maxmemory_log.is_some());
    assert!(order.is_some() && zookeeper_port.is_some());
    assert!(transaction_idle_timeout.is_some() && transaction_timeout.is_some());
    assert!(zookeeper_min_session_timeout_ms.is_some());
    assert!(zookeeper_max_session_timeout_ms.is_some() && zookeeper_shards.is_some());
    assert!(zookeeper_connections_per_address.is_some() && zookeeper_container_check_ms.is_some());
    assert!(maxclients.is_some() && password.is_some() && insecure.is_some());
    assert!(metrics_port.is_some() && synchrony.is_some() && snapshot_log_bytes.is_some());
    assert!(synchrony_dir.is_some() && synchrony_keep_days.is_some());
    assert!(log_level.is_some() && leader_wait_ms.is_some() && close_on_lost_leader.is_some());
    assert!(notify_keyspace_events.is_some());
    let TlsSettings { port: _, zookeeper_port, cert: _, key: _, client_ca } = tls.unwrap();
    assert!(zookeeper_port.is_some() && client_ca.is_some());
    let ClusterSettings { name, node, nodes, bind, announce, join, tls } = cluster;
    assert!(name.is_some() && node.is_some() && nodes.len() == 3 && announce.is_some());
    assert!(bind.is_some() && join.is_some());
    let PeerTlsSettings { cert, key, ca, server_name } = tls;
    assert!(cert.is_some() && key.is_some() && ca.is_some() && server_name.is_some());
    for UserSettings { name: _, password, password_hash, rules } in users {
        assert!(password.is_some() && password_hash.is_some() && !rules.is_empty());
    }
}

#[test]
fn sessions_may_be_silent_for_as_long_as_is_said() {
    let range = |least, most| session_timeouts(least, most).map_err(|error| error.to_string());
    assert_eq!(range(None, None), Ok(4_000..=40_000));
    assert_eq!(range(None, Some(120_000)), Ok(4_000..=120_000));
    assert_eq!(range(Some(60_000), None), Ok(60_000..=60_000));
    assert_eq!(range(None, Some(2_000)), Ok(2_000..=2_000));
    assert!(range(Some(1_999), None).unwrap_err().contains("must be from 2000"));
    assert!(range(Some(9_000), Some(8_000)).unwrap_err().contains("less: 8000"));
}

#[test]
fn containers_are_looked_for_as_often_as_is_said() {
    let often = |said| container_check_us(said).map_err(|error| error.to_string());
    assert_eq!(often(None), Ok(10_000_000));
    assert_eq!(often(Some(100)), Ok(100_000));
    for wrong in [0, 99, 86_400_001, u64::MAX] {
        assert!(often(Some(wrong)).unwrap_err().contains("must be from 100 to 86400000"));
    }
}

#[test]
fn the_file_to_start_from_shows_the_defaults() {
    let shown = file(&everything_in_the_file_to_start_from()).unwrap();
    let rules = shown.placement.as_deref().map(TagRules::parse);
    let default = Options::resolve(Settings::default()).unwrap().new_placement();
    assert_eq!(rules, Some(Ok(default)), "an existing directory has its own");
    let without_examples = Settings {
        zookeeper_port: None,
        shards: None,
        placement: None,
        workers: None,
        maxmemory: None,
        maxmemory_log: None,
        password: None,
        users: Vec::new(),
        tls: None,
        metrics_port: None,
        synchrony_dir: None,
        cluster: ClusterSettings::default(),
        ..shown
    };
    let options = |settings| format!("{:?}", Options::resolve(settings).unwrap());
    assert_eq!(options(without_examples), options(Settings::default()));
}

#[test]
fn logs_have_memory_of_their_own() {
    let log = |text: &str| Options::resolve(file(text).unwrap()).map(|o| o.memory_log_bytes);
    assert_eq!(log("maxmemory = '8gb'").unwrap(), 1 << 30, "an eighth beside the data");
    assert_eq!(log("maxmemory = '100mb'").unwrap(), LOG_MEMORY_BYTES_LEAST);
    assert!(log("maxmemory = 0").unwrap() >= LOG_MEMORY_BYTES_LEAST, "there always is a bound");
    assert!(log("maxmemory_log = '1mb'").unwrap_err().to_string().contains("maxmemory_log"));
}

#[test]
fn errors_name_file_line_and_key() {
    let error = file("port = 7000\nprot = 1\n").unwrap_err().to_string();
    assert!(error.contains("claret.toml"), "{error}");
    assert!(error.contains("line 2"), "{error}");
    assert!(error.contains("prot"), "{error}");
    let error = file("durability = 'maybe'").unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("everysec"), "{error}");
    let error = file("maxmemory = 'lots'").unwrap_err().to_string();
    assert!(error.contains("100mb"), "{error}");
}

#[test]
fn flags_go_over_the_file() {
    let flags = Settings { port: Some(1), ..Settings::default() };
    let file = Settings { port: Some(2), workers: Some(3), ..Settings::default() };
    let both = flags.over(file);
    assert_eq!((both.port, both.workers), (Some(1), Some(3)));
}

#[test]
fn a_reachable_server_needs_a_password_and_encryption() {
    let bind = Some("0.0.0.0".parse().unwrap());
    let refused = |settings: Settings| Options::resolve(settings).unwrap_err().to_string();
    let open = Settings { bind, ..Settings::default() };
    assert!(refused(open.clone()).contains("password"));
    let with_password = Settings { password: Some(Secret::new("x")), ..open };
    assert!(refused(with_password.clone()).contains("insecure"));
    let insecure = Settings { insecure: Some(true), ..with_password.clone() };
    assert!(Options::resolve(insecure).is_ok());
    let [encrypted, for_zookeeper, with_certificates] = [
        "port = 7001",
        "port = 7001\nzookeeper_port = 7002",
        "port = 7001\nzookeeper_port = 7002\nclient_ca = 'a'",
    ]
    .map(|more| {
        let tls = file(&format!("[tls]\ncert = 'c'\nkey = 'k'\n{more}\n")).unwrap();
        tls.over(with_password.clone())
    });
    assert!(Options::resolve(encrypted).is_ok());
    assert!(refused(for_zookeeper.clone()).contains("client_ca"));
    assert!(Options::resolve(with_certificates).is_ok());
    let trusted = Settings { insecure: Some(true), ..for_zookeeper };
    assert!(Options::resolve(trusted).is_ok());
}

#[test]
fn rules_that_are_none_are_refused() {
    let user =
        |rule: &str| format!("[[users]]\nname = 'a'\npassword = 'p'\nrules = ['on', '{rule}']\n");
    assert!(Options::resolve(file(&user("+@read")).unwrap()).is_ok());
    for rule in ["+@nonsense", "get", ">secret"] {
        let error = Options::resolve(file(&user(rule)).unwrap()).unwrap_err().to_string();
        assert!(error.contains("user 'a'") && error.contains(&rule[..1]), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    for settings in [
        Settings { shards: Some(0), ..Settings::default() },
        Settings { shards: Some(SHARDS_MAX as u16 + 1), ..Settings::default() },
        Settings { workers: Some(0), ..Settings::default() },
        Settings { cc: Some("best".to_owned()), ..Settings::default() },
        Settings { order: Some("any".to_owned()), ..Settings::default() },
        Settings { maxclients: Some(CONNECTIONS_MAX + 1), ..Settings::default() },
        Settings { log_level: Some("loud".to_owned()), ..Settings::default() },
        Settings { notify_keyspace_events: Some("KEq".to_owned()), ..Settings::default() },
        Settings { snapshot_log_bytes: Some(Bytes(1)), ..Settings::default() },
    ] {
        assert!(Options::resolve(settings).is_err());
    }
}

#[test]
fn sizes_are_read_as_redis_reads_them() {
    for (text, bytes) in [("100", 100), ("1kb", 1024), ("3 MB", 3 << 20), ("2g", 2 << 30)] {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
    }
    for text in ["", "x", "-1", "1.5gb", "1xb", "99999999999999999999"] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
}
