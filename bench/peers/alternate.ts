/** @file Alternation: every side does one lap per round, and every other round runs in the opposite order. */
import { MgrpoError } from "../../core/errors.ts";
import type { Lap } from "./laps.ts";
import type { Peer } from "./peer.ts";
import type { PeerLaps } from "./table.ts";

/**
 * The first lap of each side warms it up: graphs are traced and caches filled. It is round 0, which the result leaves out. Rejects with
 * `record-damaged` if a lap samples more or fewer than `sampledTokens`: that side then does different work, and a ratio would mean nothing. `report`
 * is called after every valid lap, those of round 0 included.
 */
export async function alternate<Name extends string>(
  peers: Readonly<Record<Name, Pick<Peer, "lap" | "peakBytes">>>,
  rounds: number,
  sampledTokens: number,
  report: (round: number, name: string, lap: Lap) => void = () => {},
): Promise<Record<Name, PeerLaps>> {
  const names = Object.keys(peers) as Name[];
  const laps = new Map(names.map((name) => [name, [] as Lap[]]));
  for (let round = 0; round <= rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const lap = await peers[name].lap();
      if (lap.sampledTokens !== sampledTokens)
        throw new MgrpoError(
          "record-damaged",
          `${name} sampled ${lap.sampledTokens} tokens instead of ${sampledTokens}`,
        );
      report(round, name, lap);
      if (round > 0) laps.get(name)?.push(lap);
    }
  }
  const sideOf = (name: Name): PeerLaps => ({ laps: laps.get(name) ?? [], peakBytes: peers[name].peakBytes() });
  return Object.fromEntries(names.map((name) => [name, sideOf(name)])) as Record<Name, PeerLaps>;
}
