// The web servers of the tests, and what they print.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Server } from "@claret/client/testing";

const main = fileURLToPath(new URL("../server/main.js", import.meta.url));

/** A web server, as `npm start` starts it. */
export class Web {
  private constructor(
    readonly url: string,
    readonly process: ChildProcess,
  ) {}

  static async start(store: Server): Promise<Web> {
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
