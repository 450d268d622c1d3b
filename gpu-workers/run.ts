/** @file What a worker knows of its run, read once from the store: config, questions, and the release that all its workers share. */

import { Manifest } from "../core/contracts/checkpoint.ts";
import { RunConfig } from "../core/contracts/config.ts";
import { decryptQuestions } from "../core/contracts/encryption.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { type Question, QuestionSet, type SuiteQuestions } from "../core/contracts/question.ts";
import { RunRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import type { ObjectStore, Store } from "../core/ports.ts";
import { sha256 } from "../engine/hash.ts";
import type { Log } from "./log.ts";

export interface Run {
  readonly name: string;
  readonly config: RunConfig;
  /** `<release of the program>/<config hash>/<base hash>`: equal for all workers of a run. */
  readonly release: string;
  /** A question of the run; throws when the id is unknown. */
  question(id: string): Question;
  /** What a suite asks, in plain text: the held-out questions, or those of its benchmark. */
  asked(suite: EvaluationSuite): SuiteQuestions;
  readonly store: Store;
  readonly log: Log;
}

export async function readRun(name: string, program: string, store: Store, log: Log): Promise<Run> {
  const item = await store.table.get(tableKeys.run(name));
  if (!item) {
    throw new MgrpoError(
      "not-found",
      `run '${name}' is not in the store: start it with \`mgrpo launch\`, or check its name, MGRPO_TABLE and the endpoints`,
    );
  }
  const record = parse(RunRecord, item, `record of run '${name}'`);
  const { configSha256, questionsSha256 } = record;
  const configKey = objectKeys.config(name);
  const config = parseJson(RunConfig, await unchanged(store.objects, configKey, configSha256), configKey);
  const questionsKey = objectKeys.questions(name);
  const questions = parseJson(QuestionSet, await unchanged(store.objects, questionsKey, questionsSha256), questionsKey);
  const suites = new Map(Object.entries(questions.suites ?? {}).map(([suite, set]) => [suite, decryptQuestions(set)]));
  const all = [...questions.train, ...questions.heldOut, ...[...suites.values()].flatMap((set) => set.questions)];
  const byId = new Map(all.map((question) => [question.id, question]));
  return {
    name,
    config,
    release: `${program}/${configSha256.slice(0, 16)}/${(await baseHash(name, config, store.objects)).slice(0, 16)}`,
    question(id) {
      const question = byId.get(id);
      if (!question) throw new MgrpoError("record-damaged", `question '${id}' is not in ${objectKeys.questions(name)}`);
      return question;
    },
    asked(suite) {
      const found = suite.benchmark === undefined ? { questions: questions.heldOut } : suites.get(suite.name);
      if (!found) throw new MgrpoError("record-damaged", `${questionsKey} has no questions of suite '${suite.name}'`);
      return found;
    },
    store,
    log,
  };
}

/** Hash of the files of every agent's version 0. */
async function baseHash(name: string, config: RunConfig, objects: ObjectStore): Promise<string> {
  const agents = Object.keys(config.agents).sort();
  const files = await Promise.all(
    agents.map(async (agent) => {
      const key = objectKeys.manifest(name, agent, 0);
      return Object.values(parseJson(Manifest, await required(objects, key), key).files).map((part) => part.sha256);
    }),
  );
  return sha256(JSON.stringify(files.map((hashes) => hashes.sort())));
}

async function unchanged(objects: ObjectStore, key: string, expected: string): Promise<Uint8Array> {
  const bytes = await required(objects, key);
  if (sha256(bytes) === expected) return bytes;
  throw new MgrpoError("record-damaged", `${key} is not the one that the run was started with: restore it`);
}

async function required(objects: ObjectStore, key: string): Promise<Uint8Array> {
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key} is missing from the bucket: was the run started?`);
  return bytes;
}
