/**
 * @file The engine's sequences of one session, one per branch. The first request that continues a reply continues its sequence; others
 * begin as branches of it. Either way an engine computes the same, so a sample does not depend on which request came first.
 *
 *     prompt ── reply ── … ── reply      sequence 1
 *                 └── … ── reply         sequence 2, a branch of 1
 */
import type { SampledTurn } from "../../core/gateway/branch.ts";
import type { Exchange } from "../../core/gateway/message-tree.ts";
import type { SampleRequest, Sampler } from "../../core/ports.ts";

/** Where an engine computes a turn. */
export type TurnSequence = Pick<SampleRequest, "sequence" | "branchOf">;

let sequencesOpened = 0;

export class BranchSequences {
  readonly #name: string;
  /** Sequence of each exchange. */
  readonly #byExchange = new Map<string, string>();
  readonly #samplers = new Map<string, Set<Sampler>>();

  /** @param name prefix of the sequences' names. */
  constructor(name: string) {
    this.#name = name;
  }

  /** @param isFirst whether exchange `id` is the first to continue its parent's reply. */
  of(id: string, parent: Exchange<SampledTurn> | undefined, isFirst: boolean, sampler: Sampler): TurnSequence {
    const continued = parent && this.#byExchange.get(parent.id);
    const sequence = isFirst && continued !== undefined ? continued : `${this.#name}#${sequencesOpened++}`;
    this.#byExchange.set(id, sequence);
    this.#samplers.set(sequence, (this.#samplers.get(sequence) ?? new Set()).add(sampler));
    if (!parent || continued === undefined || continued === sequence) return { sequence };
    // The last token of a reply enters the cache with the next turn.
    return { sequence, branchOf: { sequence: continued, sharedTokens: parent.turn.tokens.length - 1 } };
  }

  release(): void {
    for (const [sequence, samplers] of this.#samplers) for (const sampler of samplers) sampler.release(sequence);
    this.#samplers.clear();
  }
}
