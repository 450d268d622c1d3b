/**
 * @file The laws on claims. A process claims a verdict before it asks the judge for it; while a claim is held, nobody else claims the verdict.
 * Together they mean that a judge is never asked twice at once for the same verdict. A death ends no claim, and excuses nothing.
 */
import type { Entry, LeaseChange, LeaseGrant, Trial } from "./history.ts";

/** The store states its time in whole seconds, and a caller's clock is corrected by two such statements. */
const CLOCK_ERROR_MS = 3000;

/** Every answer of the judge has a claim of its own, or follows a request that its client repeated after a fault. */
export function unclaimedAnswers({ history }: Trial): string[] {
  const answers = count(history, ({ verdictMicroUsd }) => verdictMicroUsd !== undefined);
  const claims = count(history, ({ lease, possibleLease }) => isClaim(lease) || isClaim(possibleLease));
  const repeated = count(history, isFaultOfJudge);
  return answers > claims + repeated ? [`answers: ${answers}, claims: ${claims}, faulted requests: ${repeated}`] : [];
}

/** A claim is made only after the one before it has expired, by the store's clock, or its holder has released it or failed. */
export function overlappingClaims({ history }: Trial): string[] {
  const heldUntil = new Map<string, number>();
  return history
    .flatMap(changesOf)
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ change }) => {
      const { name } = change;
      const before = heldUntil.get(name) ?? 0;
      heldUntil.set(name, isClaim(change) ? change.claim.heldUntil : 0);
      const early = isClaim(change) ? before - change.claim.madeAt : 0;
      return early > CLOCK_ERROR_MS
        ? [`${name}: claimed ${(early / 1000).toFixed(1)} s before the claim on it expires`]
        : [];
    });
}

/**
 * What an entry did to a claim, and when. A claim counts from the latest moment at which it may have been made, its answer; the end of a claim
 * from the earliest, its request: the answer to a release may arrive after the answer to the next claim. A write whose target died during it
 * may have ended a claim.
 */
function changesOf({ lease, possibleLease, sentAt, answeredAt }: Entry): { change: LeaseChange; at: number }[] {
  if (lease) return [{ change: lease, at: isClaim(lease) ? answeredAt : sentAt }];
  return possibleLease && !isClaim(possibleLease) ? [{ change: possibleLease, at: sentAt }] : [];
}

type Claim = LeaseGrant & Required<Pick<LeaseGrant, "claim">>;
const isClaim = (change: LeaseChange | undefined): change is Claim =>
  change?.act === "grant" && change.claim !== undefined;

/** All requests to the judge pass the functions' proxy to the world. */
const isFaultOfJudge = ({ process, channel, fault }: Entry) =>
  process === "functions" && channel === "world" && fault !== undefined;

const count = (history: readonly Entry[], holds: (entry: Entry) => boolean): number => history.filter(holds).length;
