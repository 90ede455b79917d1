// socket.io: servers pass messages to each other through its adapters for Redis.
import { once } from "node:events";
import classic from "@socket.io/redis-adapter";
import emitters from "@socket.io/redis-emitter";
import { createAdapter as createStreamsAdapter } from "@socket.io/redis-streams-adapter";
import { Party, SERVERS, closeAll, clustered, open, until } from "./socket_io_servers.mjs";

const MANY = 200;
const sorted = (values) => [...values].sort();
const names = (sockets) => sorted(sockets.map((socket) => socket.data.name));
const failure = (error) => [error.message, sorted(error.responses ?? [])];

async function broadcasts(party) {
  const { A, B, C } = party.servers;
  A.emit("word", "all");
  await party.hears("all", 9);
  C.to("few").emit("word", "few");
  await party.hears("a room", 3);
  B.to("few").to("even").emit("word", "two");
  await party.hears("two rooms", 6);
  B.except("odd").emit("word", "but");
  await party.hears("all but a room", 3);
  C.to("odd").except("few").emit("word", "rest");
  await party.hears("a room but another", 3);
  party.clients["A1/"].emit("shout", "others");
  await party.hears("all but the sender", 8);
  A.to(party.clients["C2/"].id).emit("word", "you");
  await party.hears("a socket", 1);
  A.local.emit("word", "near");
  await party.hears("one server", 3);
  A.of("/side").emit("word", "nobody");
  B.emit("word", Buffer.from([0, 255, 10]));
  await party.hears("bytes", 9);
  C.emit("word", "é\u0000☃");
  await party.hears("text", 9);
}

async function answers(party) {
  const { A, B, C } = party.servers;
  party.say("servers", await A.of("/").adapter.serverCount());
  party.say("answers", sorted(await A.timeout(5000).emitWithAck("ask", 9)));
  party.say("answers of a room", sorted(await C.to("few").timeout(5000).emitWithAck("ask", 9)));
  party.say("no answers", await B.to("nowhere").timeout(5000).emitWithAck("ask", 9));
  // The third clients do not answer to this number.
  party.say("some answers", await B.timeout(1000).emitWithAck("ask", 2).catch(failure));
  party.say("answers of servers", sorted(await B.serverSideEmitWithAck("whoami", "!")));
  C.serverSideEmit("tell", "hello");
  await party.hears("told servers", 2);
}

async function sockets(party) {
  const { A, B, C } = party.servers;
  party.say("sockets", names(await A.fetchSockets()));
  party.say("sockets of a room", names(await B.in("few").fetchSockets()));
  const [one] = await C.in(party.clients["A1/"].id).fetchSockets();
  const rooms = sorted([...one.rooms].filter((room) => room !== one.id));
  party.say("one socket", [one.data, one.handshake.auth, rooms]);
  one.emit("word", "you");
  await party.hears("it", 1);
  const holds = (room, count) =>
    until(async () => (await B.in(room).fetchSockets()).length === count, `${count} in ${room}`);
  C.in("few").socketsJoin(["new", "newer"]);
  await holds("newer", 3);
  party.say("joined", names(await A.in("new").fetchSockets()));
  one.leave("new");
  await holds("new", 2);
  A.in("few").socketsLeave("newer");
  await holds("newer", 0);
  party.say("left", names(await C.in("new").fetchSockets()));
}

async function many(party) {
  const servers = Object.entries(party.servers);
  for (let at = 0; at < MANY; at++) for (const [name, server] of servers) server.emit("number", name, at);
  const clients = Object.values(party.clients);
  const wanted = MANY * servers.length;
  await until(() => clients.every((client) => client.numbers.length >= wanted), "many numbers");
  const ordered = ({ numbers }) =>
    servers.every(([name]) => numbers.filter(([from]) => from === name).every(([, n], at) => n === at));
  party.say("many", sorted(clients.map((client) => client.numbers.length)));
  // Clients of clusters send each PUBLISH to another machine, so there is no order.
  if (!clustered || !party.title.startsWith("publish")) party.say("in order", clients.every(ordered));
}

async function side(party) {
  await Promise.all(SERVERS.map((server) => party.join(server, 2, "/side")));
  await party.meet("/side");
  const { A, B, C } = party.servers;
  party.say("side", names(await A.of("/side").fetchSockets()));
  party.say("side answers", sorted(await B.of("/side").timeout(5000).emitWithAck("ask", 7)));
  C.of("/side").to("even").emit("word", "aside");
  await party.hears("side room", 3);
}

async function ends(party) {
  const { A, B, C } = party.servers;
  const [last] = await B.in(party.clients["C3/"].id).fetchSockets();
  last.disconnect(true);
  await party.hears("one disconnected", 1);
  A.of("/").in("even").disconnectSockets();
  await party.hears("room disconnected", 3);
  party.say("left", names(await C.fetchSockets()));
  await party.closes("C");
  await party.hears("closed", 2);
  party.say("without C", names(await A.fetchSockets()));
  party.say("answers without C", sorted(await B.timeout(5000).emitWithAck("ask", 9)));
  party.say("servers without C", await A.serverSideEmitWithAck("whoami", "?"));
  await Promise.all([A.close(), B.close()]);
}

// A program without a server speaks to the clients.
async function emits(party, kind, key) {
  const { A, B } = party.servers;
  const rooms = [...(await B.of("/").adapter.allRooms())];
  party.say("rooms", sorted(rooms.filter((room) => room.length < 20)));
  const emitter = new emitters.Emitter(await open(kind, 1), { key });
  emitter.emit("word", "out");
  await party.hears("emitter", 9);
  emitter.to("odd").except("few").emit("word", "some");
  await party.hears("emitter to some", 3);
  emitter.in("few").socketsJoin("told");
  await until(async () => (await A.in("told").fetchSockets()).length === 3, "three are told");
  emitter.in("told").emit("word", Buffer.from("ab"));
  await party.hears("emitter to joined", 3);
  emitter.serverSideEmit("tell", "hi");
  await party.hears("emitter to servers", 3);
}

// A client loses its connection, comes back to another server, and gets what it has missed.
async function recovers(party, kind, maxLen) {
  const { A, B, C } = party.servers;
  const client = party.clients["A1/"];
  const store = await open(kind, 0);
  const loses = async () => {
    client.io.engine.close();
    await party.hears("lost", 1);
    await until(() => store.exists(`sio:session:${client._pid}`), "the session is kept");
  };
  const returns = async (server, count) => {
    client.io.uri = party.urls[server];
    client.connect();
    await once(client, "connect");
    await party.hears(`back at ${server}`, count);
    party.say("recovered", [client.recovered, names(await C.in("few").fetchSockets())]);
  };
  const before = client.id;
  await loses();
  A.emit("word", "missed");
  await party.hears("others", 8);
  B.to("few").emit("word", "room");
  await party.hears("others of a room", 2);
  B.to("even").emit("word", "not yours");
  await party.hears("another room", 3);
  await returns("B", 2);
  party.say("same", client.id === before);
  C.to("few").emit("word", "again");
  await party.hears("again", 3);
  await loses();
  await returns("A", 0);
  await loses();
  // More than the stream keeps.
  for (let at = 0; at < maxLen * 3; at++) C.to("nowhere").emit("word", at);
  C.emit("word", "too late");
  await party.hears("others again", 8);
  await returns("B", 0);
}

async function story(name, kind, adapterOf, more = async () => {}, options = {}) {
  const party = new Party(`${name} ${kind}`);
  const adapters = [];
  for (const number of SERVERS.keys()) adapters.push(await adapterOf(number));
  await party.begin(adapters, options);
  for (const part of [broadcasts, answers, sockets, many, more, side, ends]) await part(party);
  for (const client of Object.values(party.clients)) client.disconnect();
  await closeAll();
}

const pair = async (kind, number) => [await open(kind, number), await open(kind, number)];
const recovery = { connectionStateRecovery: { maxDisconnectionDuration: 60000 } };
for (const kind of ["redis", "ioredis"]) {
  const key = `io:${kind}`;
  const published = async (number) => classic.createAdapter(...(await pair(kind, number)), { key });
  await story("publish", kind, published, (party) => emits(party, kind, key));
  for (const subscriptionMode of ["static", "dynamic", "dynamic-private"]) {
    const options = { subscriptionMode, channelPrefix: `${key}:${subscriptionMode}` };
    const sharded = async (number) => classic.createShardedAdapter(...(await pair(kind, number)), options);
    await story(subscriptionMode, kind, sharded);
  }
  for (const [name, useShardedPubSub, streamCount] of [["stream", false, 1], ["streams", true, 3]]) {
    const channelPrefix = `${key}:${name}`;
    const options = { channelPrefix, useShardedPubSub, streamName: channelPrefix, streamCount };
    Object.assign(options, { maxLen: 1000, blockTimeInMs: 200 });
    const streams = async (number) => createStreamsAdapter(await open(kind, number), options);
    await story(name, kind, streams, (party) => recovers(party, kind, options.maxLen), recovery);
  }
}
process.exit(0);
