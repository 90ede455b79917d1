// Starts the web server; its settings are in the environment.

import { App } from "./app.js";

const claret = new URL(process.env["CLARET_URL"] ?? "redis://127.0.0.1:6379");
const host = process.env["HOST"] ?? "127.0.0.1";
const app = new App(claret);
try {
  const port = await app.start(Number(process.env["PORT"] ?? 8080), host);
  console.log(`the auction is at http://${host}:${port}/`);
} catch (error) {
  console.error(`${claret.host}: ${error instanceof Error ? error.message : String(error)}`);
  console.error("Start the store with `claret serve`, or set CLARET_URL.");
  process.exit(1);
}
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void app.end().finally(() => process.exit()));
}
