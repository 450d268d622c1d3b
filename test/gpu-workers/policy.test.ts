/** @file A policy's versions: what is foreseen counts once it is published, and nothing stays open that nobody needs. */
import { expect, test, vi } from "vitest";
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import type { Checkpoints } from "../../gpu-workers/checkpoints.ts";
import { openPolicy } from "../../gpu-workers/policy.ts";
import { baseFiles } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

const files = (weights: string): Manifest["files"] => ({ "model.safetensors": { sha256: weights, bytes: 1 } });
const never = new AbortController().signal;

/** Samplers are known by the weights that they were opened on. */
function world() {
  const manifests = new Map<number, Manifest["files"]>();
  const [opened, closed]: [string[], string[]] = [[], []];
  const checkpoints = {
    manifest: async (_agent: string, version: number) => ({ files: manifests.get(version) }),
    files: async (manifest: { files: Manifest["files"] }) =>
      new Map<string, unknown>([...baseFiles("main"), ["weights", manifest.files["model.safetensors"]?.sha256]]),
  };
  const engine = {
    async openSampler(from: Map<string, unknown>) {
      const weights = String(from.get("weights"));
      opened.push(weights);
      return { release() {}, close: async () => closed.push(weights) };
    },
  };
  const config = relayConfig().agents["main"] ?? expect.fail();
  const policy = openPolicy(
    "main",
    config,
    engine as unknown as PolicyEngine,
    checkpoints as unknown as Checkpoints,
    createBusyMeter(),
  );
  return { policy, manifests, opened, closed };
}

test("what is foreseen is opened once, and confirmed when it is published", async () => {
  const { policy, manifests, opened, closed } = world();
  policy.foresee(1, files("a"));
  const hold = await policy.acquire(1);
  let isConfirmed = false;
  const confirmed = hold.confirmed(never).then((found) => {
    isConfirmed = found;
  });
  // The step is trained again, to the same bytes.
  policy.foresee(1, files("a"));
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(isConfirmed).toBe(false);
  manifests.set(1, files("a"));
  await policy.prepare(1);
  await confirmed;
  expect(isConfirmed).toBe(true);
  hold.release();
  expect(opened).toEqual(["a"]);
  policy.foresee(2, files("b"));
  (await policy.acquire(2)).release();
  await vi.waitFor(() => expect(closed).toEqual(["a"]));
  await policy.close();
  expect(closed).toEqual(["a", "b"]);
});

test.each(["by another trainer", "by this one, which trained the step again"])(
  "other weights were published %s: who spoke is told, the next speak with those, and the others are closed",
  async (by) => {
    const { policy, manifests, opened, closed } = world();
    policy.foresee(1, files("a"));
    const [first, second] = [await policy.acquire(1), await policy.acquire(1)];
    const told = first.confirmed(never);
    if (by.startsWith("by this one")) policy.foresee(1, files("b"));
    manifests.set(1, files("b"));
    await policy.prepare(1);
    expect(await told).toBe(false);
    expect(await second.confirmed(never)).toBe(false);
    const anew = await policy.acquire(1);
    expect(await anew.confirmed(never)).toBe(true);
    first.release();
    expect(closed).toEqual([]);
    second.release();
    await vi.waitFor(() => expect(closed).toEqual(["a"]));
    expect(opened).toEqual(["a", "b"]);
    await policy.close();
    expect(closed).toEqual(["a", "b"]);
  },
);

test("an older version is asked for meanwhile: what is foreseen stays open", async () => {
  const { policy, manifests, opened, closed } = world();
  manifests.set(0, files("base"));
  policy.foresee(1, files("a"));
  (await policy.acquire(0)).release();
  manifests.set(1, files("a"));
  await policy.prepare(1);
  await vi.waitFor(() => expect(closed).toEqual(["base"]));
  (await policy.acquire(1)).release();
  expect(opened).toEqual(["a", "base"]);
  await policy.close();
});

test("versions that nobody asked for do not stay open", async () => {
  const { policy, manifests, closed } = world();
  for (const [version, weights] of ["a", "b", "c"].entries()) {
    manifests.set(version, files(weights));
    await policy.prepare(version);
  }
  await vi.waitFor(() => expect(closed).toEqual(["a", "b"]));
  await policy.close();
});

test("who waits for what is never published stops when nobody waits for him", async () => {
  const { policy } = world();
  policy.foresee(1, files("a"));
  const hold = await policy.acquire(1);
  const stop = new AbortController();
  const told = hold.confirmed(stop.signal);
  stop.abort();
  await expect(told).rejects.toMatchObject({ code: "cancelled" });
  await policy.close();
});
