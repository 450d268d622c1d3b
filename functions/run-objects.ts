/**
 * @file A run's immutable objects: config, questions, manifests. A process caches those that it has read. Config and questions must have the
 * hashes that start-run wrote into RUN: an object replaced since then is refused.
 */
import { createHash } from "node:crypto";
import { Manifest } from "../core/contracts/checkpoint.ts";
import { RunConfig } from "../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { type Question, QuestionSet } from "../core/contracts/question.ts";
import { RunRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import type { StoredManifest } from "../core/training/step.ts";
import { memo } from "./caches.ts";

export interface TrainingQuestions {
  readonly train: readonly Question[];
  readonly byId: ReadonlyMap<string, Question>;
}

export interface RunObjects {
  config(run: string): Promise<RunConfig>;
  questions(run: string): Promise<TrainingQuestions>;
  /** Undefined until the version is published. */
  manifest(run: string, agent: string, version: number): Promise<StoredManifest | undefined>;
}

/** How many runs' objects, and how many manifests, a process caches. */
const CACHED_RUNS = 20;
const CACHED_MANIFESTS = 100;

export function openRunObjects(store: Pick<Store, "objects" | "table">): RunObjects {
  const readVerified = openVerifiedReads(store);
  const config = memo(CACHED_RUNS, async (run: string) => {
    const bytes = await readVerified(run, "configSha256", objectKeys.config(run));
    return bytes && parseJson(RunConfig, bytes, `config of run '${run}'`);
  });
  const questions = memo(CACHED_RUNS, async (run: string): Promise<TrainingQuestions | undefined> => {
    const bytes = await readVerified(run, "questionsSha256", objectKeys.questions(run));
    if (!bytes) return undefined;
    const { train } = parseJson(QuestionSet, bytes, `questions of run '${run}'`);
    return { train, byId: new Map(train.map((question) => [question.id, question])) };
  });
  const manifest = memo(CACHED_MANIFESTS, async (key: string): Promise<StoredManifest | undefined> => {
    const bytes = await store.objects.get(key);
    return bytes && { manifest: parseJson(Manifest, bytes, key), sha256: sha256(bytes) };
  });
  return {
    config: async (run) => (await config(run)) ?? missing(run, objectKeys.config(run)),
    questions: async (run) => (await questions(run)) ?? missing(run, objectKeys.questions(run)),
    manifest: (run, agent, version) => manifest(objectKeys.manifest(run, agent, version)),
  };
}

function missing(run: string, key: string): never {
  throw new MgrpoError("not-found", `run '${run}' has no ${key}: was it started in this store?`);
}

/** Reads an object and checks it against its hash in RUN. Undefined when there is no object. */
function openVerifiedReads({ objects, table }: Pick<Store, "objects" | "table">) {
  const runRecord = memo(CACHED_RUNS, async (run: string) => {
    const item = await table.get(tableKeys.run(run));
    return item && parse(RunRecord, item, `RUN '${run}'`);
  });
  return async (run: string, hash: "configSha256" | "questionsSha256", key: string) => {
    const [bytes, record] = await Promise.all([objects.get(key), runRecord(run)]);
    // Before RUN exists, start-run itself compares what it finds.
    if (!bytes || !record || sha256(bytes) === record[hash]) return bytes;
    throw new MgrpoError("record-damaged", `${key} is not the one that run '${run}' was started with: restore it`);
  };
}

/** Lower-case hex, as records refer to objects. */
export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
