/** @file A policy's versions: preloaded weights count once they are published, and unused samplers are closed. */
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

/** A policy whose samplers are identified by the weights that they were opened with. */
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

test("preloaded weights are opened once, and activated when they are published", async () => {
  const { policy, manifests, opened, closed } = world();
  policy.preload(1, files("a"));
  const lease = await policy.acquire(1);
  let isActivated = false;
  const activated = lease.activated(never).then((found) => {
    isActivated = found;
  });
  // The step is trained again, to the same bytes.
  policy.preload(1, files("a"));
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(isActivated).toBe(false);
  manifests.set(1, files("a"));
  await policy.activate(1);
  await activated;
  expect(isActivated).toBe(true);
  lease.release();
  expect(opened).toEqual(["a"]);
  policy.preload(2, files("b"));
  (await policy.acquire(2)).release();
  await vi.waitFor(() => expect(closed).toEqual(["a"]));
  await policy.close();
  expect(closed).toEqual(["a", "b"]);
});

test.each(["by another trainer", "by this one, which trained the step again"])(
  "other weights are published %s: leases on the preloaded ones are not activated, later ones use the others, and the first are closed",
  async (by) => {
    const { policy, manifests, opened, closed } = world();
    policy.preload(1, files("a"));
    const [first, second] = [await policy.acquire(1), await policy.acquire(1)];
    const isActivated = first.activated(never);
    if (by.startsWith("by this one")) policy.preload(1, files("b"));
    manifests.set(1, files("b"));
    await policy.activate(1);
    expect(await isActivated).toBe(false);
    expect(await second.activated(never)).toBe(false);
    const third = await policy.acquire(1);
    expect(await third.activated(never)).toBe(true);
    first.release();
    expect(closed).toEqual([]);
    second.release();
    await vi.waitFor(() => expect(closed).toEqual(["a"]));
    expect(opened).toEqual(["a", "b"]);
    await policy.close();
    expect(closed).toEqual(["a", "b"]);
  },
);

test("preloaded weights stay open while an older version is acquired", async () => {
  const { policy, manifests, opened, closed } = world();
  manifests.set(0, files("base"));
  policy.preload(1, files("a"));
  (await policy.acquire(0)).release();
  manifests.set(1, files("a"));
  await policy.activate(1);
  await vi.waitFor(() => expect(closed).toEqual(["base"]));
  (await policy.acquire(1)).release();
  expect(opened).toEqual(["a", "base"]);
  await policy.close();
});

test("versions without leases do not stay open", async () => {
  const { policy, manifests, closed } = world();
  for (const [version, weights] of ["a", "b", "c"].entries()) {
    manifests.set(version, files(weights));
    await policy.activate(version);
  }
  await vi.waitFor(() => expect(closed).toEqual(["a", "b"]));
  await policy.close();
});

test("waiting for weights that are never published ends with the signal", async () => {
  const { policy } = world();
  policy.preload(1, files("a"));
  const lease = await policy.acquire(1);
  const stop = new AbortController();
  const activated = lease.activated(stop.signal);
  stop.abort();
  await expect(activated).rejects.toMatchObject({ code: "canceled" });
  await policy.close();
});
