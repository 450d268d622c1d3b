/** @file An address holds its whole view: it can be sent, reloaded, and reached by back and forward. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { drawn, inBrowser, openDashboard, textOf } from "./browser.ts";
import { everyView } from "./views.ts";

const { open, dashboard } = openDashboard();
const path = (page: Page) => page.url().slice(dashboard().origin.length);
const arrive = async (page: Page, wanted: string | RegExp) => {
  await page.waitForURL((url) =>
    typeof wanted === "string" ? url.pathname + url.search === wanted : wanted.test(url.pathname + url.search),
  );
  await drawn(page);
};

/** Navigates as a link of the page does. */
const follow = (page: Page, address: string) =>
  page.evaluate((to) => {
    const link = document.body.appendChild(document.createElement("a"));
    link.href = to;
    link.click();
    link.remove();
  }, address);

inBrowser("every address shows the same view in a new page as after navigation from another view", async () => {
  const page = await open("/");
  for (const address of await everyView(page)) {
    await follow(page, address);
    await arrive(page, address);
    const again = await open(address);
    expect(path(again)).toBe(address);
    expect(await again.title()).toBe(await page.title());
    await expect.poll(() => textOf(page), { message: address }).toBe(await textOf(again));
    await again.close();
  }
});

inBrowser("back and forward lead through the visited addresses", async () => {
  const page = await open("/");
  const visited = [path(page)];
  for (const name of ["demo", "newest step"]) {
    await page.getByRole("link", { name, exact: true }).first().click();
    await page.waitForURL((url) => url.pathname !== visited.at(-1));
    await drawn(page);
    visited.push(path(page));
  }
  await page.locator(".cells .cell").first().click();
  await arrive(page, /steps\/2\/0\/\d+$/);
  visited.push(path(page));
  expect(visited.slice(0, 3)).toEqual(["/", "/runs/demo", "/runs/demo/steps/2"]);
  for (const before of visited.slice(0, -1).reverse()) {
    await page.goBack();
    await arrive(page, before);
  }
  for (const after of visited.slice(1)) {
    await page.goForward();
    await arrive(page, after);
  }
  expect(await textOf(page)).toContain("turn 1");
});

inBrowser("a click on a chart adds one history entry, even after a second address of the same page", async () => {
  const page = await open("/runs/demo");
  const address = "/runs/demo?again=1";
  await follow(page, address);
  await arrive(page, address);
  await page.locator(".chart").first().click();
  await arrive(page, /^\/runs\/demo\/steps\/\d$/);
  await page.goBack();
  await arrive(page, address);
});

inBrowser("the list's search and order are in its address, and add one history entry", async () => {
  const page = await open("/");
  await page.getByRole("searchbox").fill("DEMO");
  await page.getByRole("button", { name: "state" }).click();
  await page.getByRole("button", { name: "state" }).click();
  await arrive(page, "/?text=DEMO&sort=state&down=1");
  expect(await page.locator("tbody tr").count()).toBe(1);
  const again = await open(path(page));
  expect(await again.getByRole("searchbox").inputValue()).toBe("DEMO");
  expect(await again.locator("[aria-sort=descending]").innerText()).toContain("state");
  await page.goBack();
  await page.waitForURL((url) => url.search === "" || url.search.startsWith("?key="));
});

inBrowser("a step's search, filter and order are in its address", async () => {
  const page = await open("/runs/demo/steps/2");
  await page.getByLabel("order of the groups").selectOption("worst");
  await arrive(page, "/runs/demo/steps/2?sort=worst");
  await page.getByLabel("which rollouts").selectOption("wrong");
  await page.getByRole("searchbox").fill("Capital");
  await page.getByRole("searchbox").press("Enter");
  await arrive(page, "/runs/demo/steps/2?sort=worst&filter=wrong&text=Capital");
  const hits = await page.locator(".hits li").allInnerTexts();
  expect(hits.length).toBeGreaterThan(0);
  for (const hit of hits) expect(hit).toMatch(/wrong|partly/);
  for (const hit of hits) expect(hit).toMatch(/capital/i);
});

inBrowser("choosing another suite shows its first page", async () => {
  const page = await open("/runs/demo/evaluations?page=1");
  expect(await page.locator("tbody tr").count()).toBe(0);
  await page.getByLabel("suite", { exact: true }).selectOption("held-out");
  await arrive(page, "/runs/demo/evaluations?page=0&suite=held-out");
  expect(await page.locator("tbody tr").count()).toBeGreaterThan(0);
});

inBrowser("at an address without a view, a page says so and links to all runs", async () => {
  for (const address of ["/nowhere", "/runs/demo/steps/2/0/0/0"]) {
    const page = await open(address);
    expect(await textOf(page)).toContain("There is no such page.");
    await page.getByRole("link", { name: "all runs" }).click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
  }
});
