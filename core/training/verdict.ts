/**
 * @file Asks a recipe's rewards for a verdict, within a deadline. A judge (`Rewards.judge`) is asked about a trajectory by one process at
 * a time: a claim (verdict-claim.ts) keeps others from asking. Its verdicts are objects, of which the first one counts. The maximum
 * cost of a request is charged to the run before it, as a reservation; the actual cost replaces it afterward, even without a verdict. A request
 * whose cost is not reported, such as one that the deadline or the caller's signal cuts off, is billed as "unknown": at the reserved maximum.
 */
import { costOfFailure, faultOfFailure, type JudgeFault, type Judgment, Verdict } from "../contracts/judge.ts";
import { objectKeys } from "../contracts/keys.ts";
import { canonicalJson, parse, parseJson } from "../contracts/parse.ts";
import type { VerdictRecord } from "../contracts/verdict-record.ts";
import { errorText, isMgrpoError, MgrpoError } from "../errors.ts";
import type { Clock, Store, VerdictContext } from "../ports.ts";
import { JudgeCharge } from "./api-spending.ts";
import {
  claimVerdict,
  readOrInsertVerdict,
  recordVerdictFailure,
  releaseVerdict,
  type VerdictAddress,
} from "./verdict-claim.ts";

export interface VerdictRequest {
  readonly run: string;
  /** `Rewards.judge`. */
  readonly judge: string | undefined;
  /** The SHA-256 of what is judged. */
  readonly subject: string;
  /** Id of its question, for the error of the deadline. */
  readonly question: string;
  /** `limits.verdictSeconds`. */
  readonly seconds: number;
  /** The longest that this request may have been queued behind others. Absent: it was not queued. */
  readonly queueSeconds?: number;
  /** Unique to this request: names its claim and its reservations. */
  readonly token: string;
  /** Cancels the request before its deadline. */
  readonly signal?: AbortSignal;
  readonly ask: (context: VerdictContext) => Judgment | Promise<Judgment>;
  /** Throws `rewards-invalid` for a judge's verdict that cannot be used. It is billed but not stored, so corrected rewards are asked again. */
  readonly check?: (verdict: Verdict) => void;
}

/** Evidence of a failed request for a verdict: why, and for how long. */
export interface VerdictFailure {
  readonly fault: JudgeFault;
  /** Answers so far that were not verdicts. */
  readonly unusable: number;
  /** Since the first of the consecutive failures. */
  readonly failingSeconds: number;
}

/** Grace period after the deadline for what arrived in time, such as a majority of the votes. */
const GRACE_SECONDS = 1;
/** A claim outlives its request by this, so that a slow write does not let a second caller in. */
const MARGIN_SECONDS = 30;
const claimSeconds = (seconds: number) => seconds + GRACE_SECONDS + MARGIN_SECONDS;
/** The judge in VERDICT records of rewards that ask no judge, or cannot be opened. */
const PROGRAM = "program";

/**
 * Undefined only with a judge: if another process is asking it, if it failed a moment ago, or if the signal is already aborted. Rejects with
 * `judge-failed`, retryable, with its cause and a `VerdictFailure` as evidence; with `rewards-invalid`, which only the user can fix; or with
 * `canceled`, if the signal aborts.
 */
export async function askForVerdict(store: Store, request: VerdictRequest): Promise<Verdict | undefined> {
  if (request.judge === undefined) return askProgram(store, request);
  const { run, subject, judge, seconds } = request;
  const key = objectKeys.verdict(run, subject, judge);
  const stored = await readVerdict(store, key);
  if (stored) return stored;
  if (request.signal?.aborted) return undefined;
  const claim = await claimVerdict(store, { run, subject, judge }, claimSeconds(seconds), request.token);
  if (!claim) return undefined;
  // The previous caller may have died after committing its verdict.
  const earlier = claim.asks > 1 ? await readVerdict(store, key) : undefined;
  if (earlier) return earlier;
  return askAndPay(store, request, claim, key);
}

async function readVerdict({ objects }: Store, key: string): Promise<Verdict | undefined> {
  const bytes = await objects.get(key);
  return bytes && parseJson(Verdict, bytes, key);
}

/** Free rewards: any process that needs them asks, without a claim. */
async function askProgram(store: Store, request: VerdictRequest): Promise<Verdict> {
  const asking = startAsk(store.clock, request);
  try {
    return await asking.ask(async () => {});
  } catch (error) {
    if (!isMgrpoError(error, "judge-failed")) throw error;
    throw await unclaimedFailure(store, request, error);
  }
}

/** The failure of rewards that nobody claims: they cost nothing, or cannot even be opened. It has the evidence that `askForVerdict` promises. */
export async function unclaimedFailure(
  store: Store,
  request: Pick<VerdictRequest, "run" | "subject" | "queueSeconds">,
  error: MgrpoError,
): Promise<MgrpoError> {
  const address: VerdictAddress = { run: request.run, subject: request.subject, judge: PROGRAM };
  return failureOf(store, request, await readOrInsertVerdict(store, address), error);
}

/** A verdict is committed first. If recording its cost then fails, the reservation stays charged, and nobody pays for the verdict again. */
async function askAndPay(store: Store, request: VerdictRequest, claim: VerdictRecord, key: string): Promise<Verdict> {
  const charge = new JudgeCharge(store.table, request.run, {
    // Not `claim.asks`: it restarts once the VERDICT record expires, and a dead caller may have left the same name.
    name: request.token,
    claimedAt: claim.heldUntil - claimSeconds(request.seconds) * 1000,
    heldUntil: claim.heldUntil,
  });
  const asking = startAsk(store.clock, request);
  let verdict: Verdict;
  try {
    verdict = await asking.ask((usd) => charge.reserve(usd));
  } catch (error) {
    await charge.settle(0, asking.cost());
    if (isMgrpoError(error, "judge-failed")) throw await failureOf(store, request, claim, error);
    await releaseVerdict(store, claim);
    throw error;
  }
  try {
    request.check?.(verdict);
  } catch (error) {
    await charge.settle(0, verdict.cost?.usd ?? "unknown");
    await releaseVerdict(store, claim);
    throw error;
  }
  try {
    if (await store.objects.commit(key, new TextEncoder().encode(canonicalJson(verdict)))) return verdict;
    return (await readVerdict(store, key)) ?? verdict;
  } finally {
    await charge.settle(1, verdict.cost?.usd ?? "unknown");
  }
}

/**
 * A judge's adapter reports what its failure cost, if anything. An error or an invalid answer of the rewards themselves, or a crash of their
 * thread, may follow a paid request: then the cost is unknown.
 */
function costWithoutVerdict(error: unknown): number | "unknown" {
  if (!isMgrpoError(error, "judge-failed") || error.evidence !== undefined) return "unknown";
  const { cause } = error;
  if (!isMgrpoError(cause) || (cause.code === "judge-failed" && cause.evidence === undefined)) return "unknown";
  return costOfFailure(cause)?.usd ?? 0;
}

/** Records the failure, and attaches the evidence to the error. */
async function failureOf(
  store: Store,
  { queueSeconds = 0 }: Pick<VerdictRequest, "queueSeconds">,
  claim: VerdictRecord,
  error: MgrpoError,
): Promise<MgrpoError> {
  const fault = faultOfFailure(error);
  const failed = await recordVerdictFailure(store, claim, { isUnusable: fault === "unusable-answer", queueSeconds });
  const failingSeconds = (failed.failedAt - failed.failingSince) / 1000;
  const evidence: VerdictFailure = { fault, unusable: failed.unusable, failingSeconds };
  return new MgrpoError(error.code, error.message, { retryable: true, cause: error.cause, evidence });
}

interface Asking {
  ask(reserve: VerdictContext["reserve"]): Promise<Verdict>;
  /** The cost in dollars of a failed request. One that was cut off may have been paid for: only its judge can say what it cost. */
  cost(): number | "unknown";
}

/**
 * Waits for: the verdict. Unblocked by: the verdict or the error of the rewards, the deadline, or the caller's signal, whether or not the rewards
 * heed the abort.
 */
function startAsk(clock: Clock, { seconds, question, signal: stop, ask }: VerdictRequest): Asking {
  const cut = new AbortController();
  const wake = new AbortController();
  let isDone = false;
  /** What the judge threw, even if it was cut off; the deadline's error if it threw nothing in time. */
  let failure: unknown;
  const deadline = async (): Promise<never> => {
    await clock.sleep(seconds, wake.signal);
    const error = stop?.aborted
      ? new MgrpoError("canceled", "the verdict was canceled", { retryable: true })
      : new MgrpoError(
          "judge-failed",
          `no verdict within ${seconds} s (limits.verdictSeconds) on a conversation about question '${question}'`,
          { retryable: true },
        );
    if (!isDone) cut.abort(error);
    await clock.sleep(GRACE_SECONDS, wake.signal);
    throw error;
  };
  const onStop = () => wake.abort();
  return {
    cost: () =>
      cut.signal.aborted ? (costOfFailure((failure as Error).cause)?.usd ?? "unknown") : costWithoutVerdict(failure),
    async ask(reserve) {
      const reserveInTime = async (usd: number) => {
        cut.signal.throwIfAborted();
        await reserve(usd);
      };
      stop?.addEventListener("abort", onStop, { once: true });
      if (stop?.aborted) onStop();
      try {
        return await Promise.race([
          askJudge(async () => ask({ signal: cut.signal, reserve: reserveInTime })),
          deadline(),
        ]);
      } catch (error) {
        failure = error;
        // What an aborted judge throws says less than why it was aborted.
        throw cut.signal.aborted ? cut.signal.reason : error;
      } finally {
        isDone = true;
        stop?.removeEventListener("abort", onStop);
        wake.abort();
      }
    },
  };
}

/** `failureOf` makes its failures retryable. */
async function askJudge(ask: () => Promise<Judgment>): Promise<Verdict> {
  let judgment: Judgment;
  try {
    judgment = await ask();
  } catch (cause) {
    if (isMgrpoError(cause, "rewards-invalid")) throw cause;
    const why = errorText(cause);
    throw new MgrpoError("judge-failed", `the judge failed: ${why}`, { cause });
  }
  const verdict = typeof judgment === "object" && judgment !== null ? judgment : { score: judgment };
  try {
    return parse(Verdict, verdict, "the judge's verdict");
  } catch (cause) {
    const message = isScore(verdict.score)
      ? (cause as MgrpoError).message
      : `the judge answered ${String(verdict.score)}: a score lies in [0, 1]`;
    throw new MgrpoError("judge-failed", message, { cause, evidence: { fault: "unusable-answer" } });
  }
}

const isScore = (score: unknown) => typeof score === "number" && score >= 0 && score <= 1;
