/** @file The relay's tool and policy, whose answers come from the world of the trial, so that they can be slow, fail or hang. */
import { z } from "zod";
import { MgrpoError } from "../../../core/errors.ts";
import type { PolicyEngine, Tool } from "../../../core/ports.ts";
import { relayEngine } from "../../fixtures/relay/policy.ts";

const TIMEOUT_MS = 2000;

const world = (path: string) => `${process.env["MGRPO_CHAOS_WORLD"]}${path}`;

const lookup: Tool<{ word: string }> = {
  name: "lookup",
  description: "What follows a word.",
  parameters: z.object({ word: z.string() }),
  async run({ word }, { signal }) {
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const response = await fetch(world(`/look-up?word=${encodeURIComponent(word)}`), { signal: limit });
      if (!response.ok) throw new Error(`status ${response.status}`);
      return await response.text();
    } catch (cause) {
      throw new MgrpoError("tool-backend", `the look-up failed: ${(cause as Error).message}`, {
        retryable: true,
        cause,
      });
    }
  },
};

/** The relay's engine, which waits for the world before it samples. */
const slowEngine: PolicyEngine = {
  ...relayEngine,
  async openSampler(...options) {
    const sampler = await relayEngine.openSampler(...options);
    return {
      ...sampler,
      async sample(request, signal) {
        await fetch(world("/think"), { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => {});
        return sampler.sample(request, signal);
      },
    };
  },
};

export const tools: ReadonlyMap<string, Tool> = new Map([["lookup", lookup as Tool]]);
export const policies: ReadonlyMap<string, PolicyEngine> = new Map([["relay", slowEngine]]);
