/** @file The dashboard's style sheet. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { pageStyle } from "../../cli/ui/page-files.ts";

const STYLES = resolve(import.meta.dirname, "../../ui/app/style");

test("the style sheet has the rules of every file in ui/app/style", async () => {
  const style = await pageStyle();
  for (const name of readdirSync(STYLES)) expect(style, name).toContain(readFileSync(join(STYLES, name), "utf8"));
});
