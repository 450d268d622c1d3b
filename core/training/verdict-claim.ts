/**
 * @file The claim on a verdict: a conditional write with an expiry before each request, so that only one process asks at a time.
 *
 *     (none) ──claim──> held until the caller's deadline ──verdict──> the object exists
 *                          │  ▲
 *                          │  └── claim, once the time has passed (the caller died, or the pause is over)
 *                          └── failure ──> held for a pause: 1 s, doubled with every consecutive failure, at most 60 s
 *
 * A claim only avoids paying twice: the first committed verdict counts, no matter who requested it. It holds the caller's token, so that a
 * write that is repeated because its response was lost, and then refused, is recognized as this caller's own. A hold that ends later than any
 * that could begin at this moment is from before the store's clock was set back, and does not count: it could last for hours.
 */
import { tableKeys } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import { VerdictRecord } from "../contracts/verdict-record.ts";
import type { Store, TableCondition, TableItem } from "../ports.ts";

type ClaimStore = Pick<Store, "table" | "clock">;
export type VerdictAddress = Pick<VerdictRecord, "run" | "subject" | "judge">;

const MIN_PAUSE_SECONDS = 1;
const MAX_PAUSE_SECONDS = 60;
/** Failures further apart, not counting time in a queue, are of separate streaks: nobody asked in between, as in a halted run. */
const STREAK_SECONDS = 900;
/** Nobody needs the record after this. */
const KEPT_SECONDS = 7 * 86_400;

const keyOf = ({ run, subject, judge }: VerdictAddress) => tableKeys.verdict(run, subject, judge);
const parseVerdict = (item: TableItem) => parse(VerdictRecord, item, `VERDICT of run '${item["run"]}'`);
const expiryAt = (now: number) => Math.ceil(now / 1000) + KEPT_SECONDS;

/** Claims a verdict for this many seconds. Undefined: another caller holds it, or it is paused after a failure. `token`: unique to this call. */
export async function claimVerdict(
  { table, clock }: ClaimStore,
  address: VerdictAddress,
  seconds: number,
  token: string,
): Promise<VerdictRecord | undefined> {
  const now = await clock.storeTime();
  const first = { ...firstAsk(address, now + seconds * 1000, now), token };
  if (await table.insert(keyOf(address), first)) return first;
  const item = await table.get(keyOf(address));
  if (!item) return undefined;
  const known = parseVerdict(item);
  if (known.token === token) return known;
  // The response with the record has brought the store's time up to date: before it, a machine that has slept may be hours behind.
  const claimedAt = await clock.storeTime();
  if (isHeld(known, claimedAt, seconds)) return undefined;
  const claimed = await table.update({
    key: keyOf(address),
    set: [
      [["heldUntil"], claimedAt + seconds * 1000],
      [["expiresAt"], expiryAt(claimedAt)],
      [["token"], token],
    ],
    add: [[["asks"], 1]],
    when: [asksAre(known)],
  });
  const current = claimed.item && parseVerdict(claimed.item);
  return current?.token === token ? current : undefined;
}

/** `seconds`: how long a claim lasts. The sum also covers a pause, and clocks that differ a little. */
const isHeld = ({ heldUntil }: VerdictRecord, now: number, seconds: number): boolean =>
  heldUntil > now && heldUntil <= now + (seconds + MAX_PAUSE_SECONDS) * 1000;

/** Lets anyone ask immediately. */
export async function releaseVerdict({ table }: Pick<ClaimStore, "table">, claim: VerdictRecord): Promise<void> {
  await table.update({ key: keyOf(claim), set: [[["heldUntil"], 0]], when: [asksAre(claim)] });
}

interface AskFailure {
  /** Whether the judge answered, but not with a verdict. */
  readonly isUnusable: boolean;
  /** The longest that the request may have been queued behind others. */
  readonly queueSeconds: number;
}

/** Records a failure and begins the pause, unless another caller has claimed the verdict since. Returns the claim with this failure either way. */
export async function recordVerdictFailure(
  { table, clock }: ClaimStore,
  claim: VerdictRecord,
  failure: AskFailure,
): Promise<VerdictRecord> {
  const now = await clock.storeTime();
  const failed = afterFailure(claim, failure, now);
  const { heldUntil, failures, unusable, failingSince, failedAt } = failed;
  await table.update({
    key: keyOf(claim),
    set: Object.entries({ heldUntil, failures, unusable, failingSince, failedAt }).map(([name, value]) => [
      [name],
      value,
    ]),
    when: [asksAre(claim)],
  });
  return failed;
}

function afterFailure(claim: VerdictRecord, { isUnusable, queueSeconds }: AskFailure, now: number): VerdictRecord {
  const isSameStreak = claim.failures > 0 && now - claim.failedAt <= (STREAK_SECONDS + queueSeconds) * 1000;
  const failures = isSameStreak ? claim.failures + 1 : 1;
  const pauseSeconds = Math.min(MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS * 2 ** (failures - 1));
  return {
    ...claim,
    failures,
    unusable: claim.unusable + (isUnusable ? 1 : 0),
    failingSince: isSameStreak ? claim.failingSince : now,
    failedAt: now,
    heldUntil: now + pauseSeconds * 1000,
  };
}

/** The record of rewards that cost nothing: they are not claimed, and have a record only after a failure. */
export async function readOrInsertVerdict(
  { table, clock }: ClaimStore,
  address: VerdictAddress,
): Promise<VerdictRecord> {
  const item = await table.get(keyOf(address));
  if (item) return parseVerdict(item);
  const now = await clock.storeTime();
  const first = firstAsk(address, now, now);
  await table.insert(keyOf(address), first);
  return first;
}

function firstAsk(address: VerdictAddress, heldUntil: number, now: number): VerdictRecord {
  return {
    run: address.run,
    subject: address.subject,
    judge: address.judge,
    asks: 1,
    heldUntil,
    failures: 0,
    unusable: 0,
    failingSince: 0,
    failedAt: 0,
    expiresAt: expiryAt(now),
  };
}

const asksAre = ({ asks }: VerdictRecord): TableCondition => ({ equals: [["asks"], asks] });
