/**
 * @file The API keys of attempts: each names its attempt and is signed with the team's secret, so that a key of an attempt that is over
 * can be told from one that was never issued.
 *
 *     mgrpo-<step>.<group>.<rollout>-<attempt id>-<HMAC-SHA256, 32 hex digits>
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { RolloutAddress } from "../../core/contracts/rollout.ts";

const KEY = /^mgrpo-(\d+\.\d+\.\d+)-([\w-]{22})-([0-9a-f]{32})$/;

/** 128 random bits in base64url. */
export const newAttemptId = (): string => randomBytes(16).toString("base64url");

export function sessionKey(secret: string, { step, group, rollout }: RolloutAddress, attempt: string): string {
  const named = `${step}.${group}.${rollout}-${attempt}`;
  return `mgrpo-${named}-${macOf(secret, named)}`;
}

/** The id of the attempt that a key names; undefined if the team never issued that key. */
export function attemptIdOf(secret: string, key: string): string | undefined {
  const [, address, attempt, mac] = KEY.exec(key) ?? [];
  if (address === undefined || attempt === undefined || mac === undefined) return undefined;
  const expected = macOf(secret, `${address}-${attempt}`);
  return timingSafeEqual(Buffer.from(expected), Buffer.from(mac)) ? attempt : undefined;
}

const macOf = (secret: string, named: string) =>
  createHmac("sha256", secret).update(`gateway key ${named}`).digest("hex").slice(0, 32);
