/** @file A policy's versions: the most recently requested stay open, one per step in flight, and older ones close once unused. */
import { expect, test, vi } from "vitest";
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import type { Checkpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { openPolicyVersions } from "../../gpu-workers/rollouts/policy-versions.ts";
import { baseFiles } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

const files = (weights: string): Manifest["files"] => ({ "model.safetensors": { sha256: weights, bytes: 1 } });

/** A policy whose samplers are identified by the weights that they were opened with. */
function world(versions = 1, closeError: Error | undefined = undefined) {
  const manifests = new Map<number, Manifest["files"]>();
  const [opened, closed, lines]: [string[], string[], string[]] = [[], [], []];
  /** What the engine was asked, in order. */
  const asked: string[] = [];
  const checkpoints = {
    manifest: async (_agent: string, version: number) => ({ files: manifests.get(version) }),
    files: async (manifest: { files: Manifest["files"] }) =>
      new Map<string, unknown>([...baseFiles("main"), ["weights", manifest.files["model.safetensors"]?.sha256]]),
  };
  const engine = {
    async openSampler(from: Map<string, unknown>) {
      const weights = String(from.get("weights"));
      opened.push(weights);
      asked.push(`open ${weights}`);
      const close = async () => {
        asked.push(`close ${weights}`);
        return closeError ? Promise.reject(closeError) : closed.push(weights);
      };
      return { release() {}, close };
    },
  };
  const config = relayConfig().agents["main"] ?? expect.fail();
  const policy = openPolicyVersions(
    "main",
    config,
    engine as unknown as PolicyEngine,
    checkpoints as unknown as Checkpoints,
    createBusyMeter(),
    { versions, log: createLog((line) => lines.push(line)) },
  );
  return { policy, manifests, opened, closed, asked, lines };
}

const WEIGHTS = ["a", "b", "c", "d"];

function published(versions?: number) {
  const opened = world(versions);
  for (const [version, weights] of WEIGHTS.entries()) opened.manifests.set(version, files(weights));
  return opened;
}

test("an older version without leases closes before the next one opens: there may be no memory for both", async () => {
  const { policy, asked } = published();
  for (const version of [0, 1, 2]) await policy.open(version);
  expect(asked).toEqual(["open a", "close a", "open b", "close b", "open c"]);
  await policy.close();
});

test("an older version stays open until its last lease is released; then it closes", async () => {
  const { policy, opened, closed } = published();
  const [first, second] = [await policy.acquire(0), await policy.acquire(0)];
  await policy.open(1);
  first.release();
  first.release();
  // Closing is asynchronous.
  await new Promise((resolve) => setImmediate(resolve));
  expect(closed).toEqual([]);
  second.release();
  await vi.waitFor(() => expect(closed).toEqual(["a"]), 60_000);
  (await policy.acquire(1)).release();
  expect(opened).toEqual(["a", "b"]);
  await policy.close();
});

test("two steps in flight alternate between their versions without opening one again; a third closes the least recently requested", async () => {
  const { policy, opened, closed } = published(2);
  for (const version of [0, 1, 0, 1, 1, 0, 1]) (await policy.acquire(version)).release();
  expect([opened, closed]).toEqual([["a", "b"], []]);
  await policy.open(2);
  (await policy.acquire(1)).release();
  expect(opened).toEqual(["a", "b", "c"]);
  await vi.waitFor(() => expect(closed).toEqual(["a"]), 60_000);
  await policy.close();
  expect(closed.toSorted()).toEqual(["a", "b", "c"]);
});

test("`isLoadingOther` is true only while another version loads, and only for a version that is not open", async () => {
  const { policy } = published(2);
  await policy.open(0);
  const loading = policy.open(1);
  expect([0, 1, 2].map((version) => policy.isLoadingOther(version))).toEqual([false, false, true]);
  await loading;
  expect(policy.isLoadingOther(2)).toBe(false);
  await policy.close();
});

test("a version that failed to open is opened by the next request", async () => {
  const { policy, manifests, opened } = world();
  await expect(policy.acquire(0)).rejects.toThrow();
  manifests.set(0, files("a"));
  (await policy.acquire(0)).release();
  expect(opened).toEqual(["a"]);
  await policy.close();
});

test("an engine's failure to close an unused version is logged, and the next version opens", async () => {
  const { policy, manifests, opened, lines } = world(1, new Error("the engine lost it"));
  for (const [version, weights] of ["a", "b"].entries()) manifests.set(version, files(weights));
  // If nothing handled the engine's error, Vitest would report an unhandled rejection and fail.
  for (const version of [0, 1]) await policy.open(version);
  await vi.waitFor(() => expect(lines.join()).toContain("the engine lost it"), 60_000);
  expect(opened).toEqual(["a", "b"]);
});
