// A proxy between a client and a server, which mistreats some commands.

import { createServer, connect } from "node:net";
import { once } from "node:events";

/** Reads frames of the protocol, one after another. */
class Reader {
  #socket;
  #data = Buffer.alloc(0);
  #ended = false;

  constructor(socket) {
    this.#socket = socket;
    socket.on("data", (data) => {
      this.#data = Buffer.concat([this.#data, data]);
      socket.emit("more");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#ended = true;
      socket.emit("more");
    });
  }

  async #take(length) {
    while (length() === null) {
      if (this.#ended) throw new Error("the connection has ended");
      await once(this.#socket, "more");
    }
    const taken = this.#data.subarray(0, length());
    this.#data = this.#data.subarray(taken.length);
    return taken;
  }

  /** The bytes of a frame, and the texts in it. */
  async frame() {
    const line = await this.#take(() => {
      const end = this.#data.indexOf("\r\n");
      return end < 0 ? null : end + 2;
    });
    const kind = String.fromCharCode(line[0]);
    const count = Number(String(line).slice(1));
    const parts = [line];
    const words = [];
    if ("$=!".includes(kind) && count >= 0) {
      parts.push(await this.#take(() => (this.#data.length < count + 2 ? null : count + 2)));
      words.push(String(parts[1]).slice(0, -2));
    }
    if ("*%~>".includes(kind)) {
      for (let n = 0; n < count * (kind === "%" ? 2 : 1); n++) {
        const frame = await this.frame();
        parts.push(frame.bytes);
        words.push(...frame.words);
      }
    }
    return { bytes: Buffer.concat(parts), words };
  }
}

/**
 * Starts a proxy. `proxy.rule` gets the words of each command, as one text, and answers `drop` (the
 * connection breaks before the server has it), `lose` (after that), `hang`, an error reply such as
 * `-BUSY later`, or nothing. `proxy.seen` are the commands so far.
 */
export async function startProxy(port) {
  const sockets = new Set();
  const proxy = { rule: () => undefined, seen: [] };
  const serve = async (client) => {
    const server = connect(port, "127.0.0.1");
    sockets.add(client).add(server);
    try {
      const [commands, replies] = [new Reader(client), new Reader(server)];
      for (;;) {
        const { bytes, words } = await commands.frame();
        const text = words.join(" ");
        proxy.seen.push(text);
        const action = await proxy.rule(text);
        if (action === "drop") break;
        if (action === "hang") {
          await once(client, "close");
          break;
        }
        if (action?.startsWith("-")) {
          client.write(`${action}\r\n`);
          continue;
        }
        server.write(bytes);
        const reply = await replies.frame();
        if (action === "lose") break;
        client.write(reply.bytes);
      }
    } catch {
      // One of the connections has ended.
    }
    client.destroy();
    server.destroy();
  };
  const listener = createServer((client) => void serve(client));
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  proxy.address = `127.0.0.1:${listener.address().port}`;
  proxy.close = () => {
    listener.close();
    for (const socket of sockets) socket.destroy();
  };
  /** Lets the first command that begins so be treated so, and counts those that are left. */
  proxy.next = (begin, action, times = 1) => {
    proxy.rule = (text) => (text.startsWith(begin) && times-- > 0 ? action : undefined);
  };
  return proxy;
}
