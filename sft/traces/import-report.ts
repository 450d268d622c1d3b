/** @file The report of an import: how many model calls were imported or skipped, why, and where; never their content. */
import { UnusableTraceError } from "./json.ts";

interface Skipped {
  readonly count: number;
  /** File and line of the first one. */
  readonly first: string;
}

export class ImportReport {
  /** Model calls, from spans or from lines of messages. A call that returned several choices counts as several. */
  found = 0;
  /** Those that are a prefix of another, or equal to it. */
  contained = 0;
  /** Imported conversations that are cut before their second prompt. */
  cut = 0;
  /** Spans that are not model calls. */
  otherSpans = 0;
  /** Definitions in imported conversations that are not written: of tools that no recipe can have, such as those that the provider runs. */
  providerTools = 0;
  /** By reason. */
  readonly skipped = new Map<string, Skipped>();
  readonly #taken = new Map<string | undefined, { count: number; systems: Set<string> }>();

  /** What `work` returns; if it throws `UnusableTraceError`, an empty list, and the reason is counted. */
  attempt<T>(where: string, work: () => T[]): T[] {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof UnusableTraceError)) throw error;
      const { count, first } = this.skipped.get(error.message) ?? { count: 0, first: where };
      this.skipped.set(error.message, { count: count + 1, first });
      return [];
    }
  }

  /** Counts a conversation that is imported. */
  take(agent: string | undefined, system: string | undefined): void {
    const taken = this.#taken.get(agent) ?? { count: 0, systems: new Set() };
    taken.count++;
    if (system !== undefined) taken.systems.add(system);
    this.#taken.set(agent, taken);
  }

  /** Imported conversations per agent; `agent` is undefined for those that name none. */
  get taken(): { readonly agent: string | undefined; readonly count: number; readonly systems: number }[] {
    return [...this.#taken].map(([agent, { count, systems }]) => ({ agent, count, systems: systems.size }));
  }
}
