/** @file The small schemas that all other contracts are built from: names, versions, hashes. */
import * as z from "zod";

/** A run's name, used in paths and keys. */
export const RunName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,62}$/i, "1 to 63 letters, digits, '.', '_' or '-', the first a letter or digit");

/** Whether a name of lower-case letters, digits and '-' is safe as an object's key: no object inherits a property with this name. */
export function isSafeKey(name: string): boolean {
  return name !== "constructor";
}

/** An agent's name within its team. It is a key of many objects, so it must not be a property that every object inherits. */
export const AgentName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,30}$/, "1 to 31 lower-case letters, digits or '-', the first a letter")
  .refine(isSafeKey, "an agent cannot have this name: every JavaScript object has a 'constructor'");

/** SHA-256 in lower-case hex. */
export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, "64 lower-case hex digits");

/** The first 128 bits of a SHA-256, in base64url: identifies content where a record must stay small. */
export const Digest = z.string().regex(/^[\w-]{22}$/, "22 characters of base64url");
export const digestOf = (sha256: Sha256): Digest => toBase64Url(sha256.slice(0, 32));

function toBase64Url(hex: string): string {
  const bytes = Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** Version of a policy: the number of closed steps, even if some left its weights unchanged. 0 for an agent that is not trained. */
export const Version = z.int().nonnegative();

export const Step = z.int().nonnegative();

/** Index of a group (one question) within its step. Replacement groups are numbered after the others. */
export const GroupIndex = z.int().nonnegative();

/** Index of a rollout within its group, 0..K-1. */
export const RolloutIndex = z.int().nonnegative();

/** 128 bits of a SHA-256, in base64url: of the request, or, if an app ran the rollout, of request, conversation and trajectory. */
export const InvocationId = z.string().regex(/^[A-Za-z0-9_-]{22}$/);

/** Text of 1 to `bytes` bytes in UTF-8, as a table counts them. */
const ofBytes = (bytes: number) =>
  z
    .string()
    .min(1)
    .refine((text) => new TextEncoder().encode(text).length <= bytes, `takes more than ${bytes} bytes in UTF-8`);

/** A question's id as its recipe or file gives it. */
export const WrittenQuestionId = ofBytes(80);

/** A question's id in records: with a prefix, if it comes from a file or a benchmark. */
export const QuestionId = ofBytes(90);

const JUDGE_NAME = "1 to 64 letters, digits, '_', '.' or '-'";

/** A judge's name, used in keys (`Rewards.judge`). */
export const JudgeName = z.string(JUDGE_NAME).regex(/^[\w.-]{1,64}$/, JUDGE_NAME);

/** An evaluation job's id: its suite's name and a hash. */
export const JobId = z.string().max(80);

/** A worker process's id. A process that was marked dead continues under a new id. */
export const WorkerId = z.string().regex(/^[A-Za-z0-9_-]{1,40}$/);

export type RunName = z.infer<typeof RunName>;
export type AgentName = z.infer<typeof AgentName>;
export type Sha256 = z.infer<typeof Sha256>;
export type Digest = z.infer<typeof Digest>;
export type InvocationId = z.infer<typeof InvocationId>;
export type WorkerId = z.infer<typeof WorkerId>;
