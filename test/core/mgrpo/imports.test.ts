/** @file core/mgrpo depends, at any depth, only on contracts, errors, random, statistics and zod. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const CORE = resolve(import.meta.dirname, "../../../core");

test("core/mgrpo imports only contracts, errors, random, statistics and zod", () => {
  const seen = new Set<string>();
  const packages = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, specifier = ""] of readFileSync(file, "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
      if (specifier.startsWith(".")) visit(resolve(dirname(file), specifier));
      else packages.add(specifier);
    }
  };
  for (const name of readdirSync(join(CORE, "mgrpo")).filter((file) => file.endsWith(".ts")))
    visit(join(CORE, "mgrpo", name));
  expect(seen.size).toBeGreaterThan(8);
  expect([...packages]).toEqual(["zod"]);
  for (const file of seen)
    expect(relative(CORE, file)).toMatch(/^(mgrpo\/|contracts\/|errors\.ts$|random\.ts$|statistics\.ts$)/);
});
