// A server of the tests' own, with its files in a temporary folder.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class Server {
  #folder;
  #process;

  constructor(folder, port) {
    this.#folder = folder;
    this.port = port;
    this.address = `127.0.0.1:${port}`;
  }

  /** Starts a server; `CLARET_BIN` is its binary. */
  static async start() {
    const server = new Server(await mkdtemp(join(tmpdir(), "claret-client-")), await freePort());
    await server.start();
    return server;
  }

  /** Starts it, again on the same files and the same port. */
  async start() {
    const binary = process.env.CLARET_BIN;
    if (!binary) throw new Error("CLARET_BIN is the binary of the server");
    const words = ["serve", "--port", String(this.port), "--dir", this.#folder];
    this.#process = spawn(binary, words, { stdio: ["ignore", "pipe", "pipe"] });
    await new Promise((resolve, reject) => {
      let output = "";
      const look = (data) => {
        output += data;
        if (output.includes("is ready")) resolve();
      };
      this.#process.stdout.on("data", look);
      this.#process.stderr.on("data", look);
      this.#process.once("exit", () => reject(new Error(`the server has ended: ${output}`)));
    });
  }

  /** Kills it, as a loss of power would. */
  async kill() {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGKILL");
    await ended;
  }

  /** Kills it, and removes its files. */
  async remove() {
    await this.kill();
    await rm(this.#folder, { recursive: true });
  }
}

async function freePort() {
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
