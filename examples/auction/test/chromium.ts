// A browser, driven by the Chrome DevTools protocol over two pipes: no package is needed.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { stop } from "./processes.js";

const WAIT_MS = 20_000;
const LOOK_MS = 25;

type Result = Record<string, any>;
interface Message {
  id?: number;
  result?: Result;
  error?: { message: string };
}

export class Chromium {
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #calls = new Map<number, (message: Message) => void>();
  #lastId = 0;

  private constructor(child: ChildProcess, folder: string) {
    this.#process = child;
    this.#folder = folder;
    let text = "";
    (child.stdio[4] as Readable).setEncoding("utf8").on("data", (data: string) => {
      const messages = (text + data).split("\0");
      text = messages.pop() ?? "";
      for (const each of messages) {
        const message = JSON.parse(each) as Message;
        if (message.id !== undefined) this.#calls.get(message.id)?.(message);
      }
    });
  }

  static async start(): Promise<Chromium> {
    const folder = await mkdtemp(join(tmpdir(), "auction-chromium-"));
    const binary = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
    const words = [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--no-first-run",
      "--remote-debugging-pipe",
      `--user-data-dir=${folder}`,
    ];
    const child = spawn(binary, words, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    return new Chromium(child, folder);
  }

  /** Opens a page in a profile of its own, as another person would. */
  async open(url: string): Promise<Page> {
    const { browserContextId } = await this.send("Target.createBrowserContext");
    const { targetId } = await this.send("Target.createTarget", { url, browserContextId });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    return new Page(this, sessionId);
  }

  async send(method: string, params: object = {}, sessionId?: string): Promise<Result> {
    const id = ++this.#lastId;
    const message = await new Promise<Message>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), WAIT_MS);
      this.#calls.set(id, (answer) => (clearTimeout(timer), resolve(answer)));
      const words = JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) });
      (this.#process.stdio[3] as Writable).write(`${words}\0`);
    });
    this.#calls.delete(id);
    if (message.error) throw new Error(`${method}: ${message.error.message}`);
    return message.result ?? {};
  }

  async stop(): Promise<void> {
    await stop(this.#process, "SIGKILL");
    // Processes of the browser may still write there for a moment.
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

export class Page {
  constructor(
    readonly browser: Chromium,
    readonly session: string,
  ) {}

  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.#send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression: string): Promise<void> {
    const end = Date.now() + WAIT_MS;
    while (!(await this.evaluate(expression).catch(() => false))) {
      if (Date.now() > end) {
        const text = await this.evaluate("document.body.innerText");
        throw new Error(`not in time: ${expression}\n${text}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Replaces what is in a field, by keys. */
  async type(selector: string, text: string): Promise<void> {
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).select()`);
    await this.#send("Input.insertText", { text });
  }

  /** Clicks with the mouse, once or twice. */
  async click(selector: string, times = 1): Promise<void> {
    const element = `document.querySelector(${JSON.stringify(selector)})`;
    const centre = `{ const e = ${element}; e.scrollIntoView({ block: "center" });
      const b = e.getBoundingClientRect(); [b.x + b.width / 2, b.y + b.height / 2]; }`;
    const [x, y] = (await this.evaluate(centre)) as number[];
    for (let clickCount = 1; clickCount <= times; clickCount++) {
      const where = { x, y, button: "left", clickCount };
      await this.#send("Input.dispatchMouseEvent", { type: "mousePressed", ...where });
      await this.#send("Input.dispatchMouseEvent", { type: "mouseReleased", ...where });
    }
  }

  /** A picture of the page, in PNG. */
  async picture(width: number, height: number): Promise<Buffer> {
    const size = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.#send("Emulation.setDeviceMetricsOverride", size);
    const { data } = await this.#send("Page.captureScreenshot", { captureBeyondViewport: true });
    return Buffer.from(data as string, "base64");
  }

  #send(method: string, params: object): Promise<Result> {
    return this.browser.send(method, params, this.session);
  }
}
