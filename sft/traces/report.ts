/** @file What became of the calls of traces: counts, reasons and places, never content. */
import { Unusable } from "./json.ts";

interface Skipped {
  readonly count: number;
  /** File and line of the first. */
  readonly first: string;
}

export class Report {
  /** Calls of models and lines of messages; a call that returned several choices counts as several. */
  found = 0;
  /** Those that are the beginning of another, or equal to it. */
  contained = 0;
  /** Conversations that are taken up to their second prompt. */
  cut = 0;
  /** Spans that are no calls of models. */
  otherSpans = 0;
  /** Definitions of tools that the provider runs, which are not written. */
  providerTools = 0;
  readonly skipped = new Map<string, Skipped>();
  readonly #taken = new Map<string | undefined, { count: number; systems: Set<string> }>();

  /** Counts the reason of what cannot be used. */
  attempt<T>(where: string, take: () => T[]): T[] {
    try {
      return take();
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
      const { count, first } = this.skipped.get(error.message) ?? { count: 0, first: where };
      this.skipped.set(error.message, { count: count + 1, first });
      return [];
    }
  }

  take(agent: string | undefined, system: string | undefined): void {
    const taken = this.#taken.get(agent) ?? { count: 0, systems: new Set() };
    taken.count++;
    if (system !== undefined) taken.systems.add(system);
    this.#taken.set(agent, taken);
  }

  /** Per agent; `agent` is undefined for those that name none. */
  get taken(): { readonly agent: string | undefined; readonly count: number; readonly systems: number }[] {
    return [...this.#taken].map(([agent, { count, systems }]) => ({ agent, count, systems: systems.size }));
  }
}
