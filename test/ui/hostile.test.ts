/** @file What models, tools and pages write is shown as text: it runs no script, renders no markup, loads nothing and reverses no neighboring text. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { EvaluationsView } from "../../ui/views.ts";
import { drawn, inBrowser, openDashboard, textOf } from "./browser.ts";
import { MARKUP, SHOWN_NOTE } from "./hostile-run.ts";

const VIEWS = [
  "/",
  "/compare?runs=tiny,demo",
  "/runs/tiny",
  "/runs/tiny/steps/0",
  "/runs/tiny/steps/0?text=javascript",
  "/runs/tiny/steps/0?filter=lost",
  "/runs/tiny/steps/0/0",
  "/runs/tiny/steps/0/0/0",
];

const { open, dashboard } = openDashboard();

inBrowser.each(VIEWS)("%s runs no script, renders no markup and isolates overrides", async (address) => {
  const page = await open(address);
  for (const summary of await page.locator("details:not([open]) > summary").all()) await summary.click();
  expect(await page.evaluate(() => Reflect.get(window, "owned"))).toBeUndefined();
  const forbidden =
    "main :is(script, style, link, iframe, object, [onerror], [onload], [srcdoc], [href^='javascript:'])";
  expect(await page.locator(forbidden).count()).toBe(0);
  expect(await page.locator("main img").count()).toBe(0);
  expect(await unisolatedOverrides(page)).toEqual([]);
});

inBrowser("hostile text is shown verbatim", async () => {
  const page = await open("/runs/tiny/steps/0/0/0");
  const text = await textOf(page);
  expect(text.split(MARKUP).length).toBeGreaterThan(3);
  for (const visible of ["gnp.exe", "[2J"]) expect(text).toContain(visible);
  expect(await page.locator("h1").innerText()).toContain("javascript:window.owned = 6");
  expect(text).toContain("\u202e");
});

/** Expects one hostile note per element that matches the selector `holders`. */
const expectNotes = async (page: Page, holders: string) => {
  const count = await page.locator(holders).count();
  expect(count).toBeGreaterThan(0);
  const notes = await page.locator(`${holders} .note`).allInnerTexts();
  expect(notes).toEqual(Array(count).fill(expect.stringContaining(SHOWN_NOTE)));
};

inBrowser.each([
  ["/runs/tiny/steps/0", ".group"],
  ["/runs/tiny/steps/0?text=javascript", ".hits li"],
  ["/runs/tiny/steps/0?filter=lost", ".hits li"],
  ["/runs/tiny/steps/0/0", "main"],
  ["/runs/tiny/steps/0/0/0", "main"],
])("%s shows the recipe's note on each question, as text", async (address, holders) => {
  await expectNotes(await open(address), holders);
});

inBrowser("the list of an evaluation's questions shows the note on each, as text", async () => {
  const page = await open("/");
  await page.route("**/api/runs/demo/evaluations", async (route) => {
    const view: EvaluationsView = await (await route.fetch()).json();
    const note = SHOWN_NOTE.replace("Note: ", "");
    const notes = Object.fromEntries(Object.keys(view.prompts).map((id) => [id, note]));
    await route.fulfill({ json: { ...view, notes } });
  });
  await page.goto(`${dashboard().origin}/runs/demo/evaluations`);
  await drawn(page);
  await expectNotes(page, "tbody tr");
});

inBrowser("the Content-Security-Policy blocks what injected markup would do", async () => {
  const page = await open("/runs/tiny");
  page.removeAllListeners("console");
  const violations = await page.evaluate(async () => {
    const found: string[] = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => found.push(effectiveDirective));
    document.body.insertAdjacentHTML("beforeend", '<img src="/none" onerror="window.owned = 1">');
    document.body.append(Object.assign(document.createElement("script"), { text: "window.owned = 2" }));
    document.body.append(Object.assign(document.createElement("iframe"), { src: "https://evil.example/" }));
    await fetch("/api/runs").then((response) => response.json());
    await fetch("https://evil.example/").catch(() => {});
    // The browser reports violations asynchronously.
    for (let polls = 0; polls < 600 && new Set(found).size < 4; polls++)
      await new Promise((resolve) => setTimeout(resolve, 100));
    return found;
  });
  expect(await page.evaluate(() => Reflect.get(window, "owned"))).toBeUndefined();
  expect(new Set(violations)).toEqual(new Set(["script-src-attr", "script-src-elem", "frame-src", "connect-src"]));
});

/** Elements with a right-to-left override that would also reorder their neighbors. */
const unisolatedOverrides = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found: string[] = [];
    while (texts.nextNode()) {
      const { parentElement: element, textContent } = texts.currentNode;
      if (!element || !textContent?.includes("\u202e") || element.closest("svg")) continue;
      const { unicodeBidi, display } = getComputedStyle(element);
      if (!/isolate|plaintext/.test(unicodeBidi) && display !== "inline-block")
        found.push(element.outerHTML.slice(0, 80));
    }
    return found;
  });
