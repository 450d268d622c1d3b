/** @file Accessibility of the dashboard: axe's rules in both themes, the keyboard, and a narrow screen. */
import axe, { type AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { drawn, inBrowser, openDashboard } from "./browser.ts";
import { everyView } from "./views.ts";

const NARROW = { viewport: { width: 390, height: 844 } };

const { open, dashboard } = openDashboard();
const goTo = async (page: Page, address: string) => {
  await page.goto(dashboard().origin + address);
  await drawn(page);
};

/** Runs axe in the page. The page's Content-Security-Policy does not apply to a script that a debugger evaluates. */
async function analyze(page: Page, rules: readonly string[] | undefined): Promise<AxeResults> {
  await page.evaluate(axe.source);
  const options = rules ? { runOnly: [...rules] } : {};
  return page.evaluate((given) => (globalThis as unknown as { axe: typeof axe }).axe.run(given), options);
}

/** The dark theme differs only in its colors, so only their contrast is checked again. */
inBrowser.each([
  ["light", undefined],
  ["dark", ["color-contrast"]],
] as const)(
  "axe finds nothing serious in any view, in the %s theme",
  async (colorScheme, rules) => {
    const page = await open("/", { colorScheme });
    for (const address of [...(await everyView(page)), "/runs/tiny", "/runs/tiny/steps/0/0", "/nowhere"]) {
      await goTo(page, address);
      for (const button of await page.getByRole("button", { name: "tokens" }).all()) await button.click();
      await drawn(page);
      const { violations } = await analyze(page, rules);
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      const found = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`);
      expect(found, address).toEqual([]);
    }
  },
  300_000,
);

inBrowser("no page is wider than a screen of 390 pixels", async () => {
  const page = await open("/", NARROW);
  for (const address of [...(await everyView(page)), "/runs/tiny/steps/0", "/runs/tiny/steps/0/0/0"]) {
    await goTo(page, address);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), address).toBeLessThanOrEqual(390);
  }
});

inBrowser(
  "j and k move between rollouts, [ and ] between steps; k and ] stop at the ends, and a field takes keys as text",
  async () => {
    const page = await open("/runs/demo/steps/2/0/0");
    const at = (address: string) => page.waitForURL(dashboard().origin + address);
    await page.keyboard.press("k");
    await page.keyboard.press("j");
    await at("/runs/demo/steps/2/0/1");
    await drawn(page);
    await page.keyboard.press("k");
    await at("/runs/demo/steps/2/0/0");
    await goTo(page, "/runs/demo/steps/1");
    await page.keyboard.press("]");
    await at("/runs/demo/steps/2");
    await drawn(page);
    await page.getByRole("heading", { name: "Step 2", exact: true }).waitFor();
    await page.keyboard.press("]");
    await page.keyboard.press("[");
    await at("/runs/demo/steps/1");
    await drawn(page);
    await page.getByRole("searchbox").press("]");
    expect(page.url()).toBe(`${dashboard().origin}/runs/demo/steps/1`);
    expect(await page.getByRole("searchbox").inputValue()).toBe("]");
  },
);

inBrowser(
  "Tab reaches the first 40 controls of a page in document order, each with a visible focus outline",
  async () => {
    for (const address of ["/", "/runs/demo", "/runs/demo/steps/2/3/4", "/runs/demo/evaluations"]) {
      const page = await open(address);
      const controls = await page.evaluate(() => {
        const all = [...document.querySelectorAll<HTMLElement>("a, button, input, select, summary, [tabindex]")];
        const shown = all.filter((one) => one.checkVisibility() && !(one as HTMLButtonElement).disabled);
        for (const [i, one] of shown.entries()) one.dataset["at"] = String(i);
        return shown.length;
      });
      expect(controls).toBeGreaterThan(5);
      for (let i = 0; i < Math.min(controls, 40); i++) {
        await page.keyboard.press("Tab");
        const focused = await page.evaluate(() => {
          const { activeElement: one } = document;
          if (!(one instanceof HTMLElement)) return undefined;
          return {
            at: one.dataset["at"],
            outline: getComputedStyle(one).outlineStyle,
            html: one.outerHTML.slice(0, 80),
          };
        });
        expect(focused, address).toMatchObject({ at: String(i), outline: "solid" });
      }
    }
  },
);
