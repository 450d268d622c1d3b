/**
 * @file The relay's tool, whose pages come from the world of the trial, so that it can be slow, fail or hang, and its policy, which waits for
 * that world, so that it can be slow or hang. Documents are read in a separate process, which they can crash.
 */
import { z } from "zod";
import { openReader } from "../../../adapters/tools/documents/reader.ts";
import { withAnySignal } from "../../../core/any-signal.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { PolicyEngine, Tool } from "../../../core/ports.ts";
import { relayEngine } from "../../fixtures/relay/policy.ts";
import { MAX_CHARACTERS, PAGE_URL, textFor } from "../hostile-pages.ts";
import { LIMITS } from "../limits.ts";
import { PLAIN } from "../world.ts";

/** Short, since a page that misses it is read a second time, within the tool's time limit. */
const READ_SECONDS = 5;

const world = (path: string) => `${process.env["MGRPO_CHAOS_WORLD"]}${path}`;
const reader = openReader(READ_SECONDS);

const lookup: Tool<{ word: string }> = {
  name: "lookup",
  description: "What follows a word.",
  parameters: z.object({ word: z.string() }),
  async run({ word }, { signal }) {
    try {
      return await withAnySignal([signal, AbortSignal.timeout(LIMITS.tool * 1000)], (limit) => lookUp(word, limit));
    } catch (cause) {
      throw new MgrpoError("tool-backend", `the look-up failed: ${(cause as Error).message}`, {
        retryable: true,
        cause,
      });
    }
  },
};

async function lookUp(word: string, signal: AbortSignal): Promise<string> {
  const url = world(`/page?word=${encodeURIComponent(word)}`);
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const type = response.headers.get("content-type") ?? "";
  if (type === PLAIN) return response.text();
  const bytes = new Uint8Array(await response.arrayBuffer());
  return textFor(await reader.read({ url: PAGE_URL, type, bytes, maxCharacters: MAX_CHARACTERS }));
}

/** The relay's engine, which waits for the world before it samples. If the world hangs, so does the engine, until its caller gives up. */
const slowEngine: PolicyEngine = {
  ...relayEngine,
  async openSampler(...options) {
    const sampler = await relayEngine.openSampler(...options);
    return {
      ...sampler,
      async sample(request, signal) {
        await fetch(world("/think"), signal ? { signal } : {}).catch(() => {});
        return sampler.sample(request, signal);
      },
    };
  },
};

export const tools: ReadonlyMap<string, Tool> = new Map([["lookup", lookup as Tool]]);
export const policies: ReadonlyMap<string, PolicyEngine> = new Map([["relay", slowEngine]]);
