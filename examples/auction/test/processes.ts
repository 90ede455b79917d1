// The processes of the tests: a store on files of its own, and web servers over it.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../server/main.js", import.meta.url));

/** A server of Claret, which can be killed and started again on the same files and port. */
export class Store {
  readonly url: string;
  readonly #port: number;
  readonly #folder: string;
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string) {
    this.url = `redis://127.0.0.1:${port}`;
    this.#port = port;
    this.#folder = folder;
  }

  static async start(): Promise<Store> {
    const store = new Store(await freePort(), await mkdtemp(join(tmpdir(), "claret-auction-")));
    await store.start();
    return store;
  }

  async start(): Promise<void> {
    const binary = process.env["CLARET_BIN"];
    if (!binary) throw new Error("CLARET_BIN is the binary of the server");
    this.#process = spawn(binary, ["serve", "--port", String(this.#port), "--dir", this.#folder]);
    await output(this.#process, /is ready/);
  }

  async kill(): Promise<void> {
    if (this.#process) await stop(this.#process, "SIGKILL");
  }

  async remove(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** A web server, as `npm start` starts it. */
export class Web {
  private constructor(
    readonly url: string,
    readonly process: ChildProcess,
  ) {}

  static async start(store: Store): Promise<Web> {
    const env = { ...process.env, CLARET_URL: store.url, PORT: "0" };
    const child = spawn(process.execPath, [main], { env });
    const [, url = ""] = await output(child, /the auction is at (http:\S+)\//);
    return new Web(url, child);
  }

  async stop(): Promise<void> {
    await stop(this.process, "SIGTERM");
  }
}

/** Waits until a process prints what is expected. */
async function output(child: ChildProcess, expected: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = "";
    const look = (data: Buffer) => {
      text += data;
      const found = expected.exec(text);
      if (found) resolve(found);
    };
    child.stdout?.on("data", look);
    child.stderr?.on("data", look);
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`the process has ended: ${text}`)));
  });
}

/** Ends a process, and waits for its end. */
export async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}
