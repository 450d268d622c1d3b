/**
 * @file bundle.import: milliseconds to import the bundle of each Lambda handler in a fresh process, as in a cold start, excluding Node.js
 * startup; the median of several, with the bundle's size in bytes.
 */
import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { median } from "../core/statistics.ts";
import { bundleHandlers, handlerNames } from "./bundles/bundle-handlers.ts";
import { print } from "./measurement.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const PROCESSES = 9;

const folder = temporaryFolder("bundles");
const bundles = await bundleHandlers(handlerNames(), folder);
// Interleaves the bundles, so that other load on the machine affects all equally.
const rounds = Array.from({ length: PROCESSES }, () =>
  [...bundles.values()].map(({ path }) => importMilliseconds(path)),
);
for (const [i, [handler, { bytes }]] of [...bundles].entries()) {
  const value = median(rounds.map((times) => times[i] ?? Number.NaN));
  const config = { handler, bytes, processes: PROCESSES, node: process.version };
  print("bundle.import", value, "ms", config);
}

function importMilliseconds(path: string): number {
  const script = `const start = performance.now();
    const { handler } = await import(${JSON.stringify(pathToFileURL(path).href)});
    if (typeof handler !== "function") throw new Error("no handler");
    console.log(performance.now() - start);`;
  return Number(execFileSync(process.execPath, ["--input-type=module", "--eval", script], { encoding: "utf8" }));
}
