/** @file What a worker knows about its run, read from the store once: config, questions, and the release that all its workers share. */
import { Manifest } from "../core/contracts/checkpoint.ts";
import { RunConfig } from "../core/contracts/config.ts";
import { decryptQuestions } from "../core/contracts/encryption.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { type Question, QuestionSet, type SuiteQuestions } from "../core/contracts/question.ts";
import { RunRecord } from "../core/contracts/records.ts";
import { ownsPolicy } from "../core/contracts/shared-policy.ts";
import { deepFreeze } from "../core/deep-freeze.ts";
import { MgrpoError } from "../core/errors.ts";
import type { ObjectStore, Store } from "../core/ports.ts";
import { sha256 } from "../engine/hash.ts";
import type { Log } from "./log.ts";

export interface RunContext {
  readonly name: string;
  readonly config: RunConfig;
  /** `<release of the program>/<config hash>/<base hash>`: equal for all workers of a run. */
  readonly release: string;
  /** A question of the run, frozen; throws if the id is unknown. */
  question(id: string): Question;
  /** The questions of a suite, frozen and decrypted: held-out ones, or those of its benchmark. */
  suiteQuestions(suite: EvaluationSuite): SuiteQuestions;
  readonly store: Store;
  readonly log: Log;
}

export async function readRunContext(name: string, codeRelease: string, store: Store, log: Log): Promise<RunContext> {
  const { configSha256, questionsSha256 } = await readRecord(name, store);
  const configKey = objectKeys.config(name);
  const questionsKey = objectKeys.questions(name);
  const config = parseJson(RunConfig, await getUnchanged(store.objects, configKey, configSha256), configKey);
  const bytes = await getUnchanged(store.objects, questionsKey, questionsSha256);
  const base = await baseHash(name, config, store.objects);
  return {
    name,
    config,
    release: `${codeRelease}/${configSha256.slice(0, 16)}/${base.slice(0, 16)}`,
    ...questionLookups(deepFreeze(parseJson(QuestionSet, bytes, questionsKey)), questionsKey),
    store,
    log,
  };
}

async function readRecord(name: string, { table }: Store): Promise<RunRecord> {
  const item = await table.get(tableKeys.run(name));
  if (item) return parse(RunRecord, item, `record of run '${name}'`);
  throw new MgrpoError(
    "not-found",
    `run '${name}' is not in the store: start it with \`mgrpo launch\`, or check its name, MGRPO_TABLE and the endpoints`,
  );
}

function questionLookups(set: QuestionSet, key: string): Pick<RunContext, "question" | "suiteQuestions"> {
  const suites = new Map(
    Object.entries(set.suites ?? {}).map(([name, suite]) => [name, deepFreeze(decryptQuestions(suite))]),
  );
  const all = [...set.train, ...set.heldOut, ...[...suites.values()].flatMap(({ questions }) => questions)];
  const byId = new Map(all.map((question) => [question.id, question]));
  return {
    question(id) {
      const question = byId.get(id);
      if (!question) throw new MgrpoError("record-damaged", `question '${id}' is not in ${key}`);
      return question;
    },
    suiteQuestions({ name, benchmark }) {
      const found = benchmark === undefined ? { questions: set.heldOut } : suites.get(name);
      if (!found) throw new MgrpoError("record-damaged", `${key} has no questions of suite '${name}'`);
      return found;
    },
  };
}

/** The hash of the files of every policy's version 0. */
async function baseHash(name: string, config: RunConfig, objects: ObjectStore): Promise<string> {
  const agents = Object.keys(config.agents)
    .filter((agent) => ownsPolicy(config.agents, agent))
    .sort();
  const files = await Promise.all(
    agents.map(async (agent) => {
      const key = objectKeys.manifest(name, agent, 0);
      const manifest = parseJson(Manifest, await getRequired(objects, key), key);
      return Object.values(manifest.files).map((part) => part.sha256);
    }),
  );
  return sha256(JSON.stringify(files.map((hashes) => hashes.sort())));
}

async function getUnchanged(objects: ObjectStore, key: string, expectedSha256: string): Promise<Uint8Array> {
  const bytes = await getRequired(objects, key);
  if (sha256(bytes) === expectedSha256) return bytes;
  throw new MgrpoError("record-damaged", `${key} is not the one that the run was started with: restore it`);
}

async function getRequired(objects: ObjectStore, key: string): Promise<Uint8Array> {
  const bytes = await objects.get(key);
  if (bytes) return bytes;
  throw new MgrpoError(
    "not-found",
    `${key} is missing from the bucket, but the run was started: check MGRPO_BUCKET, or restore it`,
  );
}
