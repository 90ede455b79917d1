//! npm packages: the client for TypeScript, and the server for `npx` and for tests.

use super::{Dist, copy, copy_sources, read, write};
use crate::paths;
use crate::process::{command, said, start};
use serde_json::{Value, json};
use std::path::Path;

const CLIENT: &str = "clients/typescript";
const SERVER: &str = "deploy/npm";

/// A program as a user would write it.
const PROGRAM: &str = r#"
import assert from "node:assert/strict";
import { connect } from "@claret/client";
import { ioredis } from "@claret/client/ioredis";
import { binary, start } from "@claret/server";

assert.match(binary(), /node_modules\/@claret\/server\/bin\/claret$/);
const server = await start();
const db = connect({ driver: ioredis(), addresses: [server.address] });
await db.mset({ ann: 100, ben: 0 });
await db.run(async (tx) => {
  assert.ok(Number(await tx.get("ann")) >= 30);
  tx.incrBy("ann", -30);
  tx.incrBy("ben", 30);
});
await server.restart();
assert.deepEqual(await db.mget("ann", "ben"), ["70", "30"]);
await db.close();
await server.close();
"#;

/// Builds both packages, installs them in a fresh folder and uses them there.
pub fn make(dist: &Dist) -> Result<Vec<String>, String> {
    let client = dist.stage("npm-client")?;
    copy_sources(CLIENT, &client)?;
    npm(dist, &client, &["ci", "--ignore-scripts"])?;
    npm(dist, &client, &["run", "build"])?;
    let server = dist.stage("npm-server")?;
    copy_sources(SERVER, &server)?;
    copy(&dist.binary, &server.join("bin/claret"))?;
    // One kit for tests, in both packages.
    copy(&client.join("dist/testing.js"), &server.join("index.js"))?;
    copy(&client.join("dist/testing.d.ts"), &server.join("index.d.ts"))?;
    let version = &dist.version;
    let mut package = manifest(&server)?;
    package["version"] = json!(version);
    package["os"] = json!([std::env::consts::OS]);
    package["cpu"] = json!([processor()]);
    package["libc"] = json!(["glibc"]);
    let text = serde_json::to_string_pretty(&package).map_err(|error| error.to_string())?;
    write(&server.join("package.json"), &format!("{text}\n"))?;
    let found = manifest(&client)?["version"].clone();
    if found != *version {
        return Err(format!("{CLIENT}/package.json has version {found}, Cargo.toml {version}"));
    }
    let out = dist.out.to_string_lossy();
    let made = vec![format!("claret-client-{version}.tgz"), format!("claret-server-{version}.tgz")];
    for folder in [&client, &server] {
        npm(dist, folder, &["pack", "--ignore-scripts", "--pack-destination", &out])?;
    }
    attempt(dist, &made)?;
    Ok(made)
}

fn attempt(dist: &Dist, made: &[String]) -> Result<(), String> {
    let trial = dist.stage("npm-trial")?;
    write(&trial.join("package.json"), "{ \"private\": true, \"type\": \"module\" }\n")?;
    let path = |name: &String| dist.out.join(name).to_string_lossy().into_owned();
    npm(dist, &trial, &["install", &path(&made[0]), &path(&made[1]), "ioredis"])?;
    let npx = ["--no-install", "claret", "--version"];
    dist.judge_version(&said(&mut dist.tool(&trial, &mut command("npx", &npx)))?)?;
    write(&trial.join("transfer.js"), PROGRAM)?;
    start(&mut dist.tool(&trial, &mut command("node", &["transfer.js"])))
}

/// The processor, as npm calls it.
fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn manifest(folder: &Path) -> Result<Value, String> {
    let path = folder.join("package.json");
    let shown = path.strip_prefix(paths::root()).unwrap_or(&path).display().to_string();
    serde_json::from_str(&read(&path)?).map_err(|error| format!("{shown}: {error}"))
}

fn npm(dist: &Dist, folder: &Path, words: &[&str]) -> Result<(), String> {
    let quiet = ["--silent", "--no-audit", "--no-fund"];
    start(&mut dist.tool(folder, &mut command("npm", &[&quiet[..], words].concat())))
}
