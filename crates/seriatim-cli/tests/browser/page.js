// The page in a real browser. One argument, as JSON: {modules, address, token, step, key, shot}. Every finding is printed, and ends this with 1.
"use strict";
const fs = require("fs");
const asked = JSON.parse(process.argv[2]);
const { chromium } = require(asked.modules + "/playwright-core");
const axe = fs.readFileSync(asked.modules + "/axe-core/axe.min.js", "utf8");
const findings = [];
const found = (what) => findings.push(what);
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const key = encodeURIComponent(asked.key || "2");
const pages = ["/", "/feeds/totals", "/parked", "/parked?feed=totals&error=answered", `/feeds/totals/object?key=${key}`,
  "/parked/bulk?do=discard&feed=totals", "/hosts", "/queues", "/once", "/actions", `/find?key=${key}`, "/login"];

function watched(page) {
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) { found(`${page.url()}: the console says: ${said.text()}`); }
  });
  page.on("pageerror", (error) => found(`${page.url()}: ${error}`));
  page.setDefaultTimeout(30000);
  return page;
}

async function at(page, path) {
  const answer = await page.goto(asked.address + path);
  if (answer.status() !== 200) { found(`${path}: ${answer.status()}`); }
}

async function signIn(page, token) {
  await at(page, "/login");
  await page.fill("#token", token);
  await page.click("main button");
}

async function waits(page, words) {
  await page.waitForFunction((words) => document.body.innerText.includes(words), words);
}

// Each page at three widths, light and dark: nothing is wider than the screen, nothing keeps anybody out.
async function look(browser) {
  for (const width of [390, 900, 1400]) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = watched(await context.newPage());
      await signIn(page, asked.token);
      for (const path of pages) {
        await at(page, path);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (wide > 0) { found(`${path} at ${width}: ${wide} pixels wider than the screen`); }
        const outcome = await page.evaluate(axe + "; axe.run(document)");
        const bad = outcome.violations.filter((one) => ["serious", "critical"].includes(one.impact));
        for (const one of bad) { found(`${path} at ${width}, ${colorScheme}: ${one.id}: ${one.nodes[0].html}`); }
        if (asked.shot) {
          const name = (path.split("?")[0].replace(/\//g, "-").slice(1) || "overview") + `-${width}-${colorScheme}.png`;
          await page.screenshot({ path: `${asked.shot}/${name}` });
        }
      }
      await context.close();
    }
  }
}

// What somebody else does is seen without loading the page again.
async function live(browser) {
  const page = watched(await (await browser.newContext()).newPage());
  await at(page, "/feeds/totals");
  await page.evaluate(() => { window.notLoadedAgain = true; });
  const say = (what) => fetch(`${asked.address}/api/v1/feeds/totals/${what}`,
    { method: "POST", headers: { authorization: `Bearer ${asked.token}` } });
  await say("pause");
  await waits(page, "it is paused");
  await say("resume");
  await page.waitForFunction(() => !document.body.innerText.includes("it is paused"));
  if (!await page.evaluate(() => window.notLoadedAgain === true)) { found("the page was loaded again"); }
}

// Only who has the token acts; a look comes first, and what was done is kept.
async function retry(browser) {
  const page = watched(await (await browser.newContext()).newPage());
  await at(page, "/parked");
  if (await page.getByText("Retry all like this").count() !== 0) { found("buttons without a token"); }
  page.removeAllListeners("console");
  await signIn(page, "wrong");
  await waits(page, "not a token that counts");
  watched(page);
  await signIn(page, asked.token);
  await at(page, "/parked");
  await page.getByText("Retry all like this").first().click();
  await waits(page, "Nothing has been done yet");
  await page.fill("#reason", "the partner is back");
  await page.getByRole("button", { name: "Retry them all" }).click();
  await waits(page, "Nothing is parked");
  await at(page, "/actions");
  await waits(page, "the partner is back");
}

async function discard(browser) {
  const page = watched(await (await browser.newContext()).newPage());
  await signIn(page, asked.token);
  await page.fill("header input", asked.key);
  await page.keyboard.press("Enter");
  await waits(page, "parked:");
  await page.locator("main").getByRole("link", { name: "totals" }).click();
  await page.fill("#reason", "a test order");
  await page.getByRole("button", { name: "Discard the first change" }).click();
  await waits(page, "Nothing is parked");
}

// Nobody can act here, and no row is shown.
async function only(browser) {
  const page = watched(await (await browser.newContext()).newPage());
  for (const path of pages.filter((path) => path !== "/login")) {
    await at(page, path);
    if (await page.locator("form[method=post]").count() !== 0) { found(`${path}: something to act with`); }
  }
  await at(page, `/feeds/totals/object?key=${key}`);
  if ((await page.locator("main").innerText()).includes("amount")) { found("a row is shown"); }
}

(async () => {
  const browser = await chromium.launch({ executablePath: asked.chromium, args: flags });
  try { await { look, live, retry, discard, only }[asked.step](browser); } catch (error) {
    found(String(error));
    for (const page of browser.contexts().flatMap((context) => context.pages())) {
      found(`${page.url()} shows: ${await page.evaluate(() => document.body.innerText).catch(String)}`);
    }
  }
  await browser.close();
  for (const one of findings) { console.log(one); }
  process.exit(findings.length === 0 ? 0 : 1);
})();
