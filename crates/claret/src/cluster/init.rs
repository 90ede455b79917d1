//! `claret cluster init`: a configuration file for each founding machine of a cluster.
//!
//! Machines that are started with the same list of peers found a cluster; nothing else is needed.
//! So this command writes the list once for each of them, and prints the commands to start them.

use super::Result;
use clap::Args;
use serde_json::json;
use server::config::cluster::{ClusterSettings, SHARDS_DEFAULT, split_address};
use server::config::{Options, Settings};
use std::fmt::Write;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Arguments of `claret cluster init`.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// Addresses at which the machines listen for each other, the first machine's first.
    #[arg(required = true, value_name = "HOST:PORT")]
    machines: Vec<String>,
    /// Directory for the files; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "claret-cluster")]
    into: PathBuf,
    /// Name of the cluster; machines of clusters with other names are refused.
    #[arg(long, value_name = "NAME", default_value = "claret")]
    name: String,
    /// Number of shards. They can be split later.
    #[arg(long, value_name = "N", default_value_t = SHARDS_DEFAULT)]
    shards: u16,
    /// Port for clients. Machines on one host use this port and the following ones.
    #[arg(long, value_name = "PORT", default_value_t = 6379)]
    port: u16,
    /// Use no encryption: for trusted networks only.
    #[arg(long)]
    insecure: bool,
}

/// One machine.
struct Machine {
    number: u16,
    host: String,
    /// Addresses at which it listens for clients: on this host and from other hosts.
    bind: &'static str,
    port: u16,
    /// Port for clients with TLS.
    tls_port: u16,
    is_local: bool,
    file: PathBuf,
}

impl Machine {
    /// Address for clients.
    fn clients(&self, tls: bool) -> String {
        let port = if tls { self.tls_port } else { self.port };
        match self.host.contains(':') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        }
    }
}

/// Writes all files, or none of them; returns the text to print.
pub fn init(args: &InitArgs, as_json: bool) -> Result<String> {
    let machines = machines(args)?;
    check(args)?;
    let password = password()?;
    let texts = machines.iter().map(|machine| text(args, machine, &password));
    let texts: Vec<String> = texts.collect::<Result<_>>()?;
    let there = machines.iter().find(|machine| machine.file.exists());
    if let Some(machine) = there {
        let file = machine.file.display();
        return Err(format!("{file} already exists: remove it, or choose another --into"));
    }
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&args.into).map_err(|error| failed(&args.into, error))?;
    for (machine, text) in machines.iter().zip(&texts) {
        if let Err(error) = write(&machine.file, text) {
            // On failure no file is left, so that the next attempt is not refused.
            let written = machines.iter().take_while(|other| other.number <= machine.number);
            written.for_each(|other| drop(std::fs::remove_file(&other.file)));
            return Err(failed(&machine.file, error));
        }
    }
    Ok(if as_json { document(args, &machines) } else { page(args, &machines) })
}

/// Creates a file that only its owner can read: it contains a password.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

fn password() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system provides no random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn machines(args: &InitArgs) -> Result<Vec<Machine>> {
    let mut hosts = Vec::new();
    for address in &args.machines {
        let parts = split_address(address);
        let (host, _) = parts.ok_or_else(|| format!("'{address}' is not host:port"))?;
        let address: Option<IpAddr> = host.parse().ok();
        let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let bind = match (is_local, address.is_some_and(|address| address.is_ipv6())) {
            (true, true) => "::1",
            (true, false) => "127.0.0.1",
            (false, true) => "::",
            (false, false) => "0.0.0.0",
        };
        // All machines on the loopback interface share the ports of this host.
        hosts.push((if is_local { "localhost" } else { host }, host, bind, is_local));
    }
    let mut machines: Vec<Machine> = Vec::new();
    for (place, (one, host, bind, is_local)) in hosts.iter().enumerate() {
        let on_it = |others: &[(&str, &str, &str, bool)]| {
            others.iter().filter(|(other, ..)| other == one).count() as u16
        };
        let port = args.port.checked_add(on_it(&hosts[..place]));
        let tls_port = port.and_then(|port| port.checked_add(on_it(&hosts)));
        let (Some(port), Some(tls_port)) = (port, tls_port) else {
            return Err("--port is too large".to_owned());
        };
        let number = place as u16 + 1;
        let file = args.into.join(format!("n{number}.toml"));
        let host = if *is_local { bind } else { host };
        let (host, is_local) = (host.to_string(), *is_local);
        machines.push(Machine { number, host, bind, port, tls_port, is_local, file });
    }
    Ok(machines)
}

/// Formats a string for TOML.
fn quoted(text: &str) -> Result<String> {
    if text.chars().any(char::is_control) {
        return Err(format!("{text:?} has control characters"));
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Checks that a server would accept the settings of the cluster.
fn check(args: &InitArgs) -> Result<()> {
    let nodes = (1_u16..).zip(&args.machines);
    let nodes = nodes.map(|(number, address)| (number.to_string(), address.clone()));
    let cluster = ClusterSettings {
        name: Some(args.name.clone()),
        node: Some(1),
        nodes: nodes.collect(),
        ..ClusterSettings::default()
    };
    // The certificates may not exist yet.
    let (shards, insecure) = (Some(args.shards), Some(true));
    let settings = Settings { cluster, shards, insecure, ..Settings::default() };
    Options::resolve(settings).map(drop).map_err(|error| error.to_string())
}

fn text(args: &InitArgs, machine: &Machine, password: &str) -> Result<String> {
    let (name, number) = (quoted(&args.name)?, machine.number);
    let mut nodes = Vec::new();
    for (number, address) in (1..).zip(&args.machines) {
        nodes.push(format!("\"{number}\" = {}", quoted(address)?));
    }
    let dir = match machine.is_local {
        true => std::path::absolute(args.into.join(format!("n{number}"))).unwrap_or_default(),
        false => PathBuf::from(format!("/var/lib/claret/n{number}")),
    };
    let dir = quoted(dir.to_str().ok_or("--into is not valid UTF-8")?)?;
    let (bind, port, shards) = (machine.bind, machine.port, args.shards);
    let mut text = format!(
        "# Machine {number} of the cluster {name}. deploy/claret.toml lists all settings.\n\
         dir = {dir}\nbind = \"{bind}\"\nport = {port}\nshards = {shards}\n"
    );
    if !machine.is_local {
        let _ = writeln!(text, "# Password of the user \"default\", on all machines.");
        let _ = writeln!(text, "password = \"{password}\"");
    }
    if args.insecure {
        text.push_str("insecure = true\n");
    }
    let nodes = nodes.join(", ");
    let _ = write!(text, "\n[cluster]\nname = {name}\nnode = {number}\nnodes = {{ {nodes} }}\n");
    if !machine.is_local {
        let _ = writeln!(text, "announce = \"{}\"", machine.clients(!args.insecure));
    }
    if !machine.is_local && !args.insecure {
        let tls_port = machine.tls_port;
        let _ = write!(text, "{TLS_MACHINES}\n[tls]\nport = {tls_port}\n{TLS_CLIENTS}");
    }
    Ok(text)
}

/// Settings for machines on different hosts.
const TLS_MACHINES: &str = "
# How to make these: docs/operating/security.md.
[cluster.tls]
cert = \"/etc/claret/machine.pem\"
key = \"/etc/claret/machine-key.pem\"
ca = \"/etc/claret/machines-ca.pem\"
";

/// Settings for their clients, which are served without TLS on the machine itself only.
const TLS_CLIENTS: &str = "cert = \"/etc/claret/cert.pem\"
key = \"/etc/claret/key.pem\"
";

fn page(args: &InitArgs, machines: &[Machine]) -> String {
    let apart = machines.iter().any(|machine| !machine.is_local);
    let mut page = String::from(match apart {
        true => "Check these files, copy each to its machine, and start all machines:\n\n",
        false => "Run each of these commands in a terminal of its own:\n\n",
    });
    for machine in machines {
        let _ = writeln!(page, "    claret serve --config {}", machine.file.display());
    }
    let Some(first) = machines.first() else { return page };
    // Without TLS a machine serves only clients on its own host.
    let (place, host) = match first.is_local || args.insecure {
        true => ("", first.clients(false)),
        false => (" on machine 1", format!("127.0.0.1:{}", first.port)),
    };
    let user = if first.is_local { "" } else { "default:PASSWORD@" };
    let _ = write!(
        page,
        "\nOnce a majority is up, this command shows the leaders{place}:\n\n    \
         claret cluster status --url redis://{user}{host}\n"
    );
    page
}

fn document(args: &InitArgs, machines: &[Machine]) -> String {
    let machine = |machine: &Machine| {
        let clients = machine.clients(!machine.is_local && !args.insecure);
        let config = machine.file.to_string_lossy();
        json!({ "machine": machine.number, "config": config, "clients": clients })
    };
    let machines: Vec<_> = machines.iter().map(machine).collect();
    format!("{}\n", json!({ "machines": machines }))
}
