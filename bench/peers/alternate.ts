/** @file Alternation: every side does the same turn before any does the next, in the opposite order every other round. */
import { MgrpoError } from "../../core/errors.ts";
import type { Peer } from "./peer.ts";
import type { Side } from "./table.ts";
import type { Turn } from "./turns.ts";

/**
 * The first turn of each side warms it up: graphs are traced and caches filled. Rejects with `record-damaged` if a side samples another number of tokens:
 * then it does other work, and no ratio means anything. `report` is called after every turn.
 */
export async function alternate<Name extends string>(
  peers: Readonly<Record<Name, Pick<Peer, "turn" | "peakBytes">>>,
  rounds: number,
  sampledTokens: number,
  report: (round: number, name: string, turn: Turn) => void = () => {},
): Promise<Record<Name, Side>> {
  const names = Object.keys(peers) as Name[];
  const turns = new Map(names.map((name) => [name, [] as Turn[]]));
  for (let round = 0; round <= rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const turn = await peers[name].turn();
      if (turn.sampledTokens !== sampledTokens)
        throw new MgrpoError(
          "record-damaged",
          `${name} sampled ${turn.sampledTokens} tokens instead of ${sampledTokens}`,
        );
      report(round, name, turn);
      if (round > 0) turns.get(name)?.push(turn);
    }
  }
  const sideOf = (name: Name): Side => ({ turns: turns.get(name) ?? [], peakBytes: peers[name].peakBytes() });
  return Object.fromEntries(names.map((name) => [name, sideOf(name)])) as Record<Name, Side>;
}
