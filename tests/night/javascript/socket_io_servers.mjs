// Servers of socket.io with an adapter for Redis, and clients of them that write down what they hear.
// Words of the program: ports of stores, one for each server in turn. Before them `cluster` for clients of
// clusters, or `told` if the adapters are told how many servers there are instead of asking PUBSUB.
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import Redis from "ioredis";
import { createClient, createCluster } from "redis";
import { Server } from "socket.io";
import { io as connect } from "socket.io-client";

const words = process.argv.slice(2);
const mode = isNaN(words[0]) ? words.shift() : "";
const ports = words.map(Number);
export const clustered = mode === "cluster";
const told = mode === "told";
export const SERVERS = ["A", "B", "C"];
const ROOMS = { 1: ["odd", "few"], 2: ["even"], 3: ["odd"] };
const PLACES = ["/", "/side"];

export async function until(check, what) {
  for (const end = Date.now() + 20000; Date.now() < end; await pause(5)) if (await check()) return;
  throw new Error(`not in 20 s: ${what}`);
}

// Every other server speaks the older version of the protocol with its store.
const opens = {
  async redis(port, protocol) {
    const options = { url: `redis://127.0.0.1:${port}`, RESP: protocol };
    if (!clustered) return await createClient(options).connect();
    return await createCluster({ rootNodes: [{ url: options.url }], defaults: { RESP: protocol } }).connect();
  },
  async ioredis(port, protocol) {
    const place = { host: "127.0.0.1", port, protocol };
    const options = { redisOptions: { protocol }, shardedSubscribers: true };
    const client = clustered ? new Redis.Cluster([place], options) : new Redis(place);
    await once(client, "ready");
    return client;
  },
};
const opened = [];
export async function open(kind, number) {
  const client = await opens[kind](ports[number % ports.length], 3 - (number % 2));
  client.on("error", (error) => console.log(kind, error.message));
  opened.push(client);
  return client;
}
export async function closeAll() {
  while (opened.length) {
    const client = opened.pop();
    await (client.quit ?? client.close).call(client);
  }
}

// Three servers, and three clients of each: A1, A2, A3, B1, ...
export class Party {
  heard = [];
  clients = {};
  servers = {};
  urls = {};

  constructor(title) {
    this.title = title;
  }

  say(name, value) {
    console.log(`${this.title}: ${name}`, JSON.stringify(value));
  }

  async begin(adapters, options) {
    for (const [at, name] of SERVERS.entries()) {
      const http = createServer().listen(0, "127.0.0.1");
      await once(http, "listening");
      this.urls[name] = `http://127.0.0.1:${http.address().port}`;
      const server = new Server(http, { adapter: adapters[at], ...options });
      this.servers[name] = server;
      server.on("whoami", (word, answer) => answer(name + word));
      server.on("tell", (word) => this.heard.push(`${name} ${word}`));
      for (const place of PLACES) this.greetAt(server.of(place));
    }
    await Promise.all(SERVERS.flatMap((name) => [1, 2, 3].map((at) => this.join(name, at))));
    await this.meet("/");
    for (const server of Object.values(this.servers)) {
      const others = () => server.serverSideEmitWithAck("whoami", "?").catch(() => []);
      await until(async () => (await others()).length === 2, "answers of two servers");
    }
  }

  greetAt(place) {
    place.on("connection", (socket) => this.greet(socket));
    if (told) place.adapter.serverCount = async () => Object.keys(this.servers).length;
  }

  greet(socket) {
    const { name } = socket.handshake.auth;
    if (!socket.recovered) {
      socket.data.name = name;
      socket.join(ROOMS[name[1]]);
    }
    socket.on("shout", (word) => socket.broadcast.emit("word", word));
    socket.on("disconnect", (why) => this.heard.push(`${name} ${why}`));
  }

  async join(server, at, place = "/") {
    const name = `${server}${at}`;
    const client = connect(this.urls[server] + place, {
      auth: { name },
      forceNew: true,
      reconnection: false,
      transports: ["websocket"],
    });
    this.clients[name + place] = client;
    client.met = new Set();
    client.numbers = [];
    client.on("met", (word) => client.met.add(word));
    client.on("word", (word) => this.heard.push(`${name} ${Buffer.isBuffer(word) ? [...word] : word}`));
    client.on("ask", (number, answer) => number + at === 5 || answer(`${name}:${number * at}`));
    client.on("number", (from, number) => client.numbers.push([from, number]));
    await once(client, "connect");
  }

  // Waits until every server reaches the clients at a place, and all rooms there.
  async meet(place) {
    const here = Object.entries(this.clients).filter(([name]) => name.slice(2) === place);
    const rooms = [...new Set(here.flatMap(([name]) => ROOMS[name[1]]))];
    const wanted = (name) => SERVERS.flatMap((from) => ["", ...ROOMS[name[1]]].map((room) => from + room));
    await until(async () => {
      for (const [name, server] of Object.entries(this.servers)) {
        server.of(place).emit("met", name);
        for (const room of rooms) server.of(place).to(room).emit("met", name + room);
      }
      await pause(20);
      return here.every(([name, client]) => wanted(name).every((word) => client.met.has(word)));
    }, `all meet at ${place}`);
  }

  // Tells what is heard once so many words have come, and a little later.
  async hears(name, count) {
    await until(() => this.heard.length >= count, `${this.title}: ${name} ${this.heard}`);
    await pause(20);
    this.say(name, this.heard.sort());
    this.heard = [];
  }

  async closes(name) {
    await this.servers[name].close();
    delete this.servers[name];
    const left = Object.values(this.servers);
    const counted = async () => (await left[0].of("/").adapter.serverCount()) === left.length;
    // A server that is told the number does not see when the subscriptions of another one have ended.
    await (told ? pause(1000) : until(counted, `the subscriptions of ${name} have ended`));
  }
}
