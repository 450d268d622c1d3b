/** @file The gateway under load (bench/gateway-load.ts): every request is answered, slow readers included, and memory stays bounded. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const BENCH = join(import.meta.dirname, "../../dist/bench/gateway-load.js");
/** 62.5 kB for each of 1,024 conversations. */
const MAX_MEGABYTES = 64;

test("memory stays bounded with 64 attempts and 1,024 requests in flight, every eighth read late", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [BENCH]);
  const figures = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(figures.map(({ name }) => name)).toEqual([
    "gateway.load.seconds",
    "gateway.load.heap",
    "gateway.load.heap.after",
  ]);
  expect(figures[0].config).toEqual({ attempts: 64, requests: 1024, slow: 128 });
  for (const { value } of figures.slice(1)) expect(value).toBeLessThan(MAX_MEGABYTES);
});
