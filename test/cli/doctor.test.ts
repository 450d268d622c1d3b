/** @file `mgrpo doctor` on a machine with less free memory than a default run takes. */
import { expect, test, vi } from "vitest";
import { chdirToProject } from "./command-line.ts";
import { printedJson } from "./printed.ts";

vi.mock("node:os", async (original) => {
  const actual = await original<typeof import("node:os")>();
  return { ...actual, freemem: () => 3.5e9 };
});

chdirToProject();

test("3.5 GB of free memory is too little for a default run", async () => {
  const checks = await printedJson("doctor");
  // Another check of this machine may fail.
  process.exitCode = undefined;
  expect(checks.find(({ name }) => name === "memory")).toMatchObject({
    state: "missing",
    found: expect.stringMatching(/^3\.5 GB free of /),
    advice: "a default run takes up to 4 GB",
  });
});
