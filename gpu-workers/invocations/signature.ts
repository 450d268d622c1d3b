/**
 * @file How workers, and the apps that they call, authenticate calls and reports: by a signature with a shared secret, which
 * is never sent. An intercepted call cannot be changed, and its replay is refused or does no lasting harm.
 *
 *     x-mgrpo-time        store time in milliseconds; 401 when more than five minutes from the server's
 *     x-mgrpo-nonce       128 random bits; 409 when seen before; remembered for ten minutes
 *     x-mgrpo-signature   HMAC-SHA256 with the secret as key; 401 when it does not match. Of a call, it is over the lines
 *                         method / path / SHA-256 of the body / nonce / time; of a report, over the lines
 *                         "report" / SHA-256 of the body / nonce of the call that it answers
 *
 * Between workers, the path is the one below the worker's URL, so a proxy in front (for TLS) may add its own host and path prefix. For an
 * app, it is the path of the app's URL. A restarted server has forgotten the nonces that it saw, and another worker of the team never saw
 * them. A replay there can only request work again, or cancel it, and then its caller requests it again. Among responses, only reports are
 * signed, a result (200) or a limit that an agent reached (422): their text reaches the conversation, and a limit may decide a reward.
 * Forging any other can only delay or end work.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../core/ports.ts";
import { sha256 } from "../../engine/hash.ts";

/** Covers the error of store time, up to a second, and the drift of clocks between two reads of it. */
const WINDOW_MILLISECONDS = 5 * 60_000;

const HEADERS = { time: "x-mgrpo-time", nonce: "x-mgrpo-nonce", signature: "x-mgrpo-signature" };

const SIGNATURE = /^[0-9a-f]{64}$/;

type StoreTime = Pick<Clock, "storeTime">;

/** What is signed of a call to a worker or an app. The path includes the query. */
export interface WorkerCall {
  readonly method: string;
  readonly path: string;
  readonly body: Uint8Array | string;
}

/** The signature of one call, good for one use. */
export interface SignedCall {
  /** Headers that authenticate the call. */
  readonly headers: Record<string, string>;
  /** Whether a body is a report that answers this call, signed with the same secret. */
  isAuthenticReport(body: string, header: (name: string) => string | null): boolean;
  /** Whether the call was signed so long ago that a refusal may be for its age: the machine may have slept while the call was on its way. */
  isOld(): Promise<boolean>;
}

export type SignCall = (call: WorkerCall) => Promise<SignedCall>;

export function openCallSigner(secret: string, clock: StoreTime): SignCall {
  return async (call) => {
    const nonce = randomBytes(16).toString("base64url");
    const time = String(await clock.storeTime());
    return {
      headers: {
        [HEADERS.time]: time,
        [HEADERS.nonce]: nonce,
        [HEADERS.signature]: signatureOf(secret, call, nonce, time).toString("hex"),
      },
      isAuthenticReport(body, header) {
        const signature = header(HEADERS.signature) ?? "";
        return (
          SIGNATURE.test(signature) &&
          timingSafeEqual(reportSignature(secret, body, nonce), Buffer.from(signature, "hex"))
        );
      },
      isOld: async () => (await clock.storeTime()) - Number(time) > WINDOW_MILLISECONDS / 2,
    };
  };
}

/** Headers of a report. `header` reads those of the call that it answers. */
export type SignReport = (body: string, header: (name: string) => string | undefined) => Record<string, string>;

export function openReportSigner(secret: string): SignReport {
  return (body, header) => ({
    [HEADERS.signature]: reportSignature(secret, body, header(HEADERS.nonce) ?? "").toString("hex"),
  });
}

/** The status and the body of the response to a call that is refused. 409: a copy of the call was received; the call may be signed again. */
export interface CallRefusal {
  readonly status: 401 | 409;
  readonly reason: string;
}

/** Undefined when the call is authentic. */
export type VerifyCall = (
  call: WorkerCall,
  header: (name: string) => string | undefined,
) => Promise<CallRefusal | undefined>;

export function openCallVerifier(secret: string, clock: StoreTime): VerifyCall {
  /** Nonce -> store time after which it may be forgotten, in ascending order. */
  const seen = new Map<string, number>();
  return async (call, header) => {
    const { time = "", nonce = "", signature = "" } = read(header);
    if (!/^\d{1,15}$/.test(time) || !/^[\w-]{22}$/.test(nonce) || !SIGNATURE.test(signature))
      return unauthorized("the call is not signed");
    const expected = signatureOf(secret, call, nonce, time);
    if (!timingSafeEqual(expected, Buffer.from(signature, "hex")))
      return unauthorized("the signature does not match the secret");
    const now = await clock.storeTime();
    const off = Math.abs(now - Number(time));
    if (off > WINDOW_MILLISECONDS)
      return unauthorized(`its time is ${Math.round(off / 1000)} s off the server's clock`);
    for (const [old, until] of seen) {
      if (until >= now) break;
      seen.delete(old);
    }
    if (seen.has(nonce)) return { status: 409, reason: "this call was already received" };
    // A call dated one window ahead stays valid for two.
    seen.set(nonce, now + 2 * WINDOW_MILLISECONDS);
    return undefined;
  };
}

const unauthorized = (reason: string): CallRefusal => ({ status: 401, reason });

const read = (header: (name: string) => string | undefined) => ({
  time: header(HEADERS.time),
  nonce: header(HEADERS.nonce),
  signature: header(HEADERS.signature),
});

const signatureOf = (secret: string, { method, path, body }: WorkerCall, nonce: string, time: string): Buffer =>
  hmac(secret, [method, path, sha256(body), nonce, time]);

const reportSignature = (secret: string, body: string, nonce: string): Buffer =>
  hmac(secret, ["report", sha256(body), nonce]);

const hmac = (secret: string, lines: readonly string[]): Buffer =>
  createHmac("sha256", secret).update(lines.join("\n")).digest();
