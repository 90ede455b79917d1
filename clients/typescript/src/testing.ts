/**
 * Servers for the tests of a program: started in a moment, killed, and started again. It needs
 * nothing but Node, and is the main module of the package `@claret/server`, too.
 *
 * @module
 */

import { spawn, type ChildProcess } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { tmpdir } from "node:os";

const HOST = "127.0.0.1";

/** Time in which a server must be ready, even after it was killed. */
const READY_MS_MAX = 30_000;
const LOOK_MS = 5;

/**
 * Ports below those from which systems take the local end of a connection: a client that dials a
 * killed server again and again could otherwise be connected to itself, and keep the port.
 */
const PORT_MIN = 10_000;
const PORT_MAX = 32_000;

/**
 * Starts a server without data; the arguments are added to those of `claret serve`. Its program is
 * that of `CLARET_BIN`, of the package `@claret/server`, or `claret` on `PATH`.
 */
export async function start(...options: string[]): Promise<Server> {
  const server = new Server(await mkdtemp(join(tmpdir(), "claret-")), await freePort(), options);
  try {
    await server.start();
  } catch (error) {
    await server.close();
    throw error;
  }
  return server;
}

/** The path of the program that `start` starts. */
export function binary(): string {
  const named = process.env["CLARET_BIN"];
  if (named) {
    const found = isProgram(named) ? named : onPath(named);
    if (!found) throw new Error(`CLARET_BIN is ${named}, which is no program`);
    return found;
  }
  const found = installed() ?? onPath("claret");
  if (!found) {
    throw new Error(
      "there is no server to start: install @claret/server, put claret on PATH, or set " +
        "CLARET_BIN to its path",
    );
  }
  return found;
}

/** A server with a folder and a port of its own, which it keeps when it is started again. */
export class Server {
  readonly port: number;
  /** `host:port`. */
  readonly address: string;
  /** The address as drivers of Redis take it. */
  readonly url: string;
  readonly #folder: string;
  readonly #arguments: string[];
  #process: ChildProcess | undefined;
  #failure: Error | undefined;

  /** Of `start`, which also starts it. */
  constructor(folder: string, port: number, options: string[]) {
    this.port = port;
    this.address = `${HOST}:${port}`;
    this.url = `redis://${this.address}`;
    this.#folder = folder;
    this.#arguments = ["serve", "--port", String(port), "--dir", join(folder, "data"), ...options];
  }

  /** The process number, while it runs. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Everything that the server has written, since it was first started. */
  async log(): Promise<string> {
    return readFile(join(this.#folder, "log.txt"), "utf8").catch(() => "");
  }

  /** Starts the process on the server's files and port; resolves when it is ready. */
  async start(): Promise<void> {
    if (this.#process) throw new Error("the server runs already");
    const program = binary();
    const before = (await this.log()).length;
    const log = await open(join(this.#folder, "log.txt"), "a");
    const child = spawn(program, this.#arguments, { stdio: ["ignore", log.fd, log.fd] });
    this.#process = child;
    this.#failure = undefined;
    process.once("exit", this.#end);
    child.once("error", (error) => (this.#failure = error));
    child.once("exit", () => {
      process.off("exit", this.#end);
      if (this.#process === child) this.#process = undefined;
    });
    await log.close();
    const until = Date.now() + READY_MS_MAX;
    for (;;) {
      const written = (await this.log()).slice(before);
      if (written.includes("is ready")) break;
      if (this.#failure || !this.#process || Date.now() > until) {
        await this.kill();
        throw new Error(`the server did not start: ${this.#failure ?? written}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    // A server that is left running does not keep the tests from ending, and ends with them.
    child.unref();
  }

  /** Ends the process without warning, as `kill -9` does, if it runs. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  /** Kills the process, and starts it again. */
  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** Kills the process, and removes its files. */
  async close(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #end = (): void => {
    this.#process?.kill("SIGKILL");
  };
}

/** The program in the package `@claret/server`, which is also the package of this module there. */
function installed(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve("@claret/server/bin/claret");
  } catch {
    return undefined;
  }
}

function onPath(name: string): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.map((folder) => join(folder, name)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
    const probe = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      probe.once("error", () => resolve(false));
      probe.listen(port, HOST, () => probe.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
