/**
 * @file Puts a run into its store: questions, base models, then start-run. A start overwrites nothing: a retry after a crash reuses
 * what the first attempt wrote.
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { StartRun } from "../../core/contracts/messages.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, Store } from "../../core/ports.ts";
import { type RaisedBudget, raisesBudget } from "../../core/training/run-budget.ts";
import { sha256, sha256OfFile } from "../../engine/hash.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import type { Bases } from "./base-models.ts";
import type { EmbeddedCloud } from "./embedded-cloud.ts";
import { resumeInStore } from "./resume-in-store.ts";

/** Starts the run, or resumes it if its store has it. */
export async function startOrResume(
  cloud: Pick<EmbeddedCloud, "store" | "functions">,
  config: RunConfig,
  bases: () => Bases | Promise<Bases>,
  questions: () => QuestionSet | Promise<QuestionSet>,
  raised: RaisedBudget = {},
): Promise<void> {
  const { objects, table } = cloud.store;
  const item = await table.get(tableKeys.run(config.run));
  if (item) {
    await resumeInStore(cloud.store, config, parse(RunRecord, item, `RUN ${config.run}`), raised);
    await cloud.functions.startSchedule();
    return;
  }
  if (raisesBudget(raised)) {
    throw new MgrpoError(
      "config-invalid",
      `run '${config.run}' has not started, so it has no budget to raise: leave out --budget-*`,
    );
  }
  const questionBytes = recordBytes(await questions());
  await objects.commit(objectKeys.questions(config.run), questionBytes);
  const parts: StartRun["bases"] = {};
  for (const [agent, files] of await bases()) parts[agent] = await commitParts(objects, config.run, files);
  await cloud.functions.startRun({ config, questionsSha256: sha256(questionBytes), bases: parts });
}

/** Commits the small files of a base model. Large ones stay where they are, named by origin and hash. */
async function commitParts(
  objects: Store["objects"],
  run: string,
  files: CheckpointFiles,
): Promise<StartRun["bases"][string]> {
  const parts: StartRun["bases"][string] = {};
  for (const [name, file] of files) {
    const hash = await sha256OfFile(file);
    if (file instanceof Uint8Array) {
      await objects.commit(objectKeys.part(run, hash), file);
      parts[name] = { sha256: hash, bytes: file.length };
    } else {
      parts[name] = { sha256: hash, bytes: file.bytes, origin: file.origin ?? file.path };
    }
  }
  return parts;
}
