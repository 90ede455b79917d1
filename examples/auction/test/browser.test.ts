import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { start, type Server } from "@claret/client/testing";
import { Chromium, type Page } from "./chromium.js";
import { Web } from "./processes.js";

// Node 18 runs hooks outside a suite only when the process is about to end.
describe("in a browser", () => {
  let store: Server;
  let webs: Web[];
  let chromium: Chromium;
  let ann: Page;
  let ben: Page;

  before(async () => {
    store = await start();
    webs = [await Web.start(store), await Web.start(store)];
    chromium = await Chromium.start();
    [ann, ben] = (await Promise.all(webs.map(({ url }) => chromium.open(url)))) as [Page, Page];
    for (const [page, name] of [[ann, "Ann"], [ben, "Ben"]] as const) {
      await page.until(`document.querySelectorAll(".lot").length === 3`);
      await page.type("#bidder", name);
      // Lost if the page is loaded again.
      await page.evaluate(`window.loadedOnce = true`);
    }
  });

  after(async () => {
    const folder = process.env["PICTURES"];
    if (folder) {
      await writeFile(`${folder}/wide.png`, await ann.picture(1200, 1000));
      await writeFile(`${folder}/narrow.png`, await ben.picture(390, 2400));
    }
    await chromium.stop();
    await Promise.all(webs.map((web) => web.stop()));
    await store.close();
  });

  const shows = (lot: string, selector: string, text: string) =>
    `document.querySelector("#lot-${lot} ${selector}").textContent.includes("${text}")`;

  async function bid(page: Page, lot: string, amount: string, clicks = 1): Promise<void> {
    await page.type(`#amount-${lot}`, amount);
    await page.click(`#lot-${lot} .bid button`, clicks);
  }

  test("two pages show each other's bids without being loaded again", async () => {
    await bid(ann, "clock", "40");
    await ben.until(shows("clock", ".leader", "Ann"));
    await bid(ben, "clock", "1250.5");
    await ann.until(shows("clock", ".price", "1,250.50"));
    await ann.until(shows("clock", ".leader", "Ben"));
    await ben.until(shows("clock", ".count", "2 bids"));
    for (const page of [ann, ben]) assert.equal(await page.evaluate("loadedOnce"), true);
  });

  test("a double click bids once", async () => {
    await bid(ann, "chart", "10", 2);
    await ann.until(shows("chart", ".outcome", "counts"));
    await ann.click("#lot-chart .bid button");
    await bid(ben, "chart", "12");
    await ann.until(shows("chart", ".leader", "Ben"));
    await ann.until(shows("chart", ".count", "2 bids"));
  });

  test("a bid while the store is killed arrives once it is back", async () => {
    await store.kill();
    await ben.until(`document.querySelector("#link").dataset.state === "down"`);
    await bid(ann, "chart", "15");
    await store.start();
    await ben.until(shows("chart", ".leader", "Ann"));
    await ben.until(shows("chart", ".count", "3 bids"));
    assert.equal(await ben.evaluate("loadedOnce"), true);
  });

  test("a page closes an auction, and the other one shows that it is sold", async () => {
    await ann.click("#lot-clock .close");
    await ann.until(`document.querySelector("#closing").open`);
    await ann.click("#closing [value=close]");
    await ben.until(shows("clock", ".label", "Sold for"));
    const hidden = `getComputedStyle(document.querySelector("#lot-clock .bid")).display`;
    assert.equal(await ben.evaluate(hidden), "none");
  });
});
