/**
 * @file The relay's tool and policy, which depend on the world of the trial. The tool gets its pages there, so it can be slow, fail or hang;
 * the policy waits for the world before it samples, so it can be slow or hang. Each page has
 * a price. Documents are read in a separate process, which they can crash.
 */
import * as z from "zod";
import { openReader, type Reader } from "../../../adapters/tools/documents/reader.ts";
import { openRunBudget } from "../../../adapters/tools/web/external/budget.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { PolicyEngine, Tool } from "../../../core/ports.ts";
import type { OpenTools } from "../../../core/recipe.ts";
import { relayEngine } from "../../fixtures/relay/policy.ts";
import { MAX_CHARACTERS, PAGE_URL, textFor } from "../hostile-pages.ts";
import { LIMITS } from "../limits.ts";
import { PAGE_USD, PLAIN } from "../world.ts";

/** The limit of one read. Short, since a page that takes longer is read a second time, and the run's `toolSeconds` limits both reads together. */
const READ_SECONDS = 5;

export const tools: OpenTools = async ({ config, environment, store }) => {
  const reader = openReader(READ_SECONDS);
  const runBudget = store && (await openRunBudget(config.run, { calls: null, usd: null }, store.table));
  const lookup: Tool<{ word: string }> = {
    name: "lookup",
    description: "What follows a word.",
    parameters: z.object({ word: z.string() }),
    async run({ word }, { budget }) {
      const refusal = budget.charge(PAGE_USD);
      if (refusal !== undefined) return refusal;
      await runBudget?.charge(PAGE_USD);
      const url = `${environment["MGRPO_CHAOS_WORLD"]}/page?word=${encodeURIComponent(word)}`;
      return lookUp(url, reader).catch((cause: Error) => {
        throw new MgrpoError("tool-backend", `the look-up failed: ${cause.message}`, { retryable: true, cause });
      });
    },
  };
  return { tools: new Map([["lookup", lookup as Tool]]), close: () => reader.close() };
};

/** The request is paid for, so it is sent even if its rollout has been canceled. */
async function lookUp(url: string, reader: Reader): Promise<string> {
  const limit = new AbortController();
  // A process that continues after a stop sends its unsent request before the limit aborts it.
  const timer = setTimeout(() => setImmediate(() => limit.abort()), LIMITS.tool * 1000);
  try {
    const response = await fetch(url, { signal: limit.signal });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const type = response.headers.get("content-type") ?? "";
    if (type === PLAIN) return await response.text();
    const bytes = new Uint8Array(await response.arrayBuffer());
    return textFor(await reader.read({ url: PAGE_URL, type, bytes, maxCharacters: MAX_CHARACTERS }));
  } finally {
    clearTimeout(timer);
  }
}

/** The relay's engine, which waits for the world before it samples. If the world hangs, so does the engine, until its caller gives up. */
const slowEngine: PolicyEngine = {
  ...relayEngine,
  async openSampler(...options) {
    const sampler = await relayEngine.openSampler(...options);
    return {
      ...sampler,
      async sample(request, signal) {
        await fetch(`${process.env["MGRPO_CHAOS_WORLD"]}/think`, signal ? { signal } : {}).catch(() => {});
        return sampler.sample(request, signal);
      },
    };
  },
};

export const policies: ReadonlyMap<string, PolicyEngine> = new Map([["relay", slowEngine]]);
