//! `claret cluster init`: a configuration file for each machine that is to found a cluster.
//!
//! A cluster is founded by machines that are started with the same list of each other; there is
//! nothing else to be done. So this writes the list, once for each of them, and says what to start.

use super::Result;
use clap::Args;
use serde_json::json;
use server::config::cluster::{ClusterSettings, SHARDS_DEFAULT, split_address};
use server::config::{Options, Settings};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Arguments of `claret cluster init`.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// Where the machines listen for each other, the first one's address first.
    #[arg(required = true, value_name = "HOST:PORT")]
    machines: Vec<String>,
    /// Directory for the files, which is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "claret-cluster")]
    into: PathBuf,
    /// Name of the cluster; machines of clusters with other names are turned away.
    #[arg(long, value_name = "NAME", default_value = "claret")]
    name: String,
    /// Number of shards. They can be split later.
    #[arg(long, value_name = "N", default_value_t = SHARDS_DEFAULT)]
    shards: u16,
    /// Port for clients. Machines on one host get this one and those after it.
    #[arg(long, value_name = "PORT", default_value_t = 6379)]
    port: u16,
    /// Speak without encryption: for networks that are trusted.
    #[arg(long)]
    insecure: bool,
}

/// One machine.
struct Machine {
    number: u16,
    host: String,
    /// For clients.
    port: u16,
    file: PathBuf,
}

impl Machine {
    fn is_local(&self) -> bool {
        let is_loopback = self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        is_loopback || self.host == "localhost"
    }

    /// Where clients reach it.
    fn clients(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Writes the files, or none of them; gives what is to be printed.
pub fn init(args: &InitArgs, as_json: bool) -> Result<String> {
    let machines = machines(args)?;
    check(args)?;
    let password = password()?;
    let texts = machines.iter().map(|machine| text(args, machine, &password));
    let there = machines.iter().find(|machine| machine.file.exists());
    if let Some(machine) = there {
        let file = machine.file.display();
        return Err(format!("{file} is there already: remove it, or choose another --into"));
    }
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&args.into).map_err(|error| failed(&args.into, error))?;
    for (machine, text) in machines.iter().zip(texts) {
        write(&machine.file, &text).map_err(|error| failed(&machine.file, error))?;
    }
    Ok(if as_json { document(&machines) } else { page(&machines) })
}

/// A file that only its owner reads: there is a password in it.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

fn password() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("there are no random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn machines(args: &InitArgs) -> Result<Vec<Machine>> {
    let mut taken: BTreeMap<&str, u16> = BTreeMap::new();
    let mut machines = Vec::new();
    for (number, address) in (1..).zip(&args.machines) {
        let parts = split_address(address);
        let (host, _) = parts.ok_or_else(|| format!("'{address}' is no host:port"))?;
        let before = taken.entry(host).or_default();
        let port = args.port.checked_add(*before).ok_or("--port is too large")?;
        *before += 1;
        let file = args.into.join(format!("n{number}.toml"));
        machines.push(Machine { number, host: host.to_owned(), port, file });
    }
    Ok(machines)
}

/// Whether a server would take what is said about the cluster.
fn check(args: &InitArgs) -> Result<()> {
    let nodes = (1_u16..).zip(&args.machines);
    let nodes = nodes.map(|(number, address)| (number.to_string(), address.clone()));
    let cluster = ClusterSettings {
        name: Some(args.name.clone()),
        node: Some(1),
        nodes: nodes.collect(),
        ..ClusterSettings::default()
    };
    // Certificates may still have to be made.
    let (shards, insecure) = (Some(args.shards), Some(true));
    let settings = Settings { cluster, shards, insecure, ..Settings::default() };
    Options::resolve(settings).map(drop).map_err(|error| error.to_string())
}

fn text(args: &InitArgs, machine: &Machine, password: &str) -> String {
    let (name, number) = (&args.name, machine.number);
    let nodes = (1..).zip(&args.machines);
    let nodes = nodes.map(|(number, address)| format!("\"{number}\" = \"{address}\""));
    let nodes: Vec<String> = nodes.collect();
    let dir = match machine.is_local() {
        true => std::path::absolute(args.into.join(format!("n{number}"))).unwrap_or_default(),
        false => PathBuf::from(format!("/var/lib/claret/n{number}")),
    };
    let mut text = format!(
        "# Machine {number} of the cluster \"{name}\". deploy/claret.toml has all settings there are.\n\
         dir = {dir:?}\n\
         port = {}\n\
         shards = {}\n",
        machine.port, args.shards
    );
    if !machine.is_local() {
        let _ = write!(
            text,
            "bind = \"0.0.0.0\"\n# Of the user \"default\", on all machines.\n\
             password = \"{password}\"\n"
        );
    }
    if args.insecure {
        text.push_str("insecure = true\n");
    }
    let _ = write!(
        text,
        "\n[cluster]\nname = {name:?}\nnode = {number}\nnodes = {{ {} }}\n",
        nodes.join(", ")
    );
    if !machine.is_local() {
        let _ = writeln!(text, "announce = \"{}\"", machine.clients());
        if !args.insecure {
            text.push_str(TLS);
        }
    }
    text
}

/// For machines that are not all on one host.
const TLS: &str = "
# How to make these: docs/guide/security.md.
[cluster.tls]
cert = \"/etc/claret/machine.pem\"
key = \"/etc/claret/machine-key.pem\"
ca = \"/etc/claret/machines-ca.pem\"

[tls]
port = 6380
cert = \"/etc/claret/cert.pem\"
key = \"/etc/claret/key.pem\"
";

fn page(machines: &[Machine]) -> String {
    let mut page = String::new();
    let apart = machines.iter().any(|machine| !machine.is_local());
    page.push_str(match apart {
        true => "Look through these files, copy each to its machine, and start them all:\n\n",
        false => "Start all of these, each in a terminal of its own:\n\n",
    });
    for machine in machines {
        let _ = writeln!(page, "    claret serve --config {}", machine.file.display());
    }
    let first = machines.first().map(Machine::clients).unwrap_or_default();
    let user = if apart { "default:PASSWORD@" } else { "" };
    let _ = write!(
        page,
        "\nWhen a majority is up, this shows who leads what:\n\n    \
         claret cluster status --url redis://{user}{first}\n"
    );
    page
}

fn document(machines: &[Machine]) -> String {
    let machines: Vec<_> = machines
        .iter()
        .map(|machine| {
            let clients = machine.clients();
            json!({ "machine": machine.number, "config": machine.file, "clients": clients })
        })
        .collect();
    format!("{}\n", json!({ "machines": machines }))
}
