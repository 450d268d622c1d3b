/**
 * @file How workers know each other's calls and answers: by a signature with the secret that all workers of a team share. The secret itself
 * never travels, and a call that was overheard is of no use: it can be neither changed nor sent again.
 *
 *     x-mgrpo-time        store time, milliseconds: refused when it is more than five minutes from the server's
 *     x-mgrpo-nonce       128 random bits: refused when seen before within that time
 *     x-mgrpo-signature   HMAC-SHA256, with the secret as key, over the lines  method / path / SHA-256 of the body / nonce / time;
 *                         of a report:  "report" / SHA-256 of the body / nonce of the call that it answers
 *
 * The path is that below the worker's URL, so that a proxy in front of it (for TLS) may have a host and a folder of its own. A server
 * that was restarted has forgotten the nonces it saw, and another worker of the team never saw them: what a replay could do there is ask
 * for an invocation that was asked for before, or cancel it, and its caller asks again. Of answers, reports are signed, for they become text
 * of a conversation; any other can do no more than one that is lost.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../core/ports.ts";
import { sha256 } from "../../engine/hash.ts";

/** More than the error of store time, which is a second, and of clocks that drift between two looks. */
const WINDOW_MILLISECONDS = 5 * 60_000;

const HEADERS = { time: "x-mgrpo-time", nonce: "x-mgrpo-nonce", signature: "x-mgrpo-signature" };

const SIGNATURE = /^[0-9a-f]{64}$/;

type StoreTime = Pick<Clock, "storeTime">;

/** What is signed; the path with its query. */
export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body: Uint8Array | string;
}

/** A call's own, each time others. */
export interface SignedCall {
  /** They prove the call. */
  readonly headers: Record<string, string>;
  /** Whether an answer is a report that this team gave to this very call. */
  isReport(body: string, header: (name: string) => string | null): boolean;
}

export type SignCall = (call: Call) => Promise<SignedCall>;

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
      isReport(body, header) {
        const signature = header(HEADERS.signature) ?? "";
        return (
          SIGNATURE.test(signature) &&
          timingSafeEqual(reportSignature(secret, body, nonce), Buffer.from(signature, "hex"))
        );
      },
    };
  };
}

/** Headers of a report, which answers the call with these. */
export type SignReport = (body: string, header: (name: string) => string | undefined) => Record<string, string>;

export function openReportSigner(secret: string): SignReport {
  return (body, header) => ({
    [HEADERS.signature]: reportSignature(secret, body, header(HEADERS.nonce) ?? "").toString("hex"),
  });
}

/** Why a call is refused; undefined when it is to be answered. */
export type VerifyCall = (call: Call, header: (name: string) => string | undefined) => Promise<string | undefined>;

export function openCallVerifier(secret: string, clock: StoreTime): VerifyCall {
  /** Nonce -> store time from when on it may be forgotten, in the order of both. */
  const seen = new Map<string, number>();
  return async (call, header) => {
    const { time = "", nonce = "", signature = "" } = read(header);
    if (!/^\d{1,15}$/.test(time) || !/^[\w-]{22}$/.test(nonce) || !SIGNATURE.test(signature))
      return "the call is not signed";
    const expected = signatureOf(secret, call, nonce, time);
    if (!timingSafeEqual(expected, Buffer.from(signature, "hex"))) return "the signature is not this team's";
    const now = await clock.storeTime();
    if (Math.abs(now - Number(time)) > WINDOW_MILLISECONDS)
      return `signed ${Math.round(Math.abs(now - Number(time)) / 1000)} s from now, by the store's clock`;
    for (const [old, until] of seen) {
      if (until > now) break;
      seen.delete(old);
    }
    if (seen.has(nonce)) return "this very call came before";
    // One that is dated ahead stays acceptable for twice the window.
    seen.set(nonce, now + 2 * WINDOW_MILLISECONDS);
    return undefined;
  };
}

const read = (header: (name: string) => string | undefined) => ({
  time: header(HEADERS.time),
  nonce: header(HEADERS.nonce),
  signature: header(HEADERS.signature),
});

const signatureOf = (secret: string, { method, path, body }: Call, nonce: string, time: string): Buffer =>
  hmac(secret, [method, path, sha256(body), nonce, time]);

const reportSignature = (secret: string, body: string, nonce: string): Buffer =>
  hmac(secret, ["report", sha256(body), nonce]);

const hmac = (secret: string, lines: readonly string[]): Buffer =>
  createHmac("sha256", secret).update(lines.join("\n")).digest();
