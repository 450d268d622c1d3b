/**
 * @file Evaluates a team on this machine: a run that never trains, whose team 0 is the team in question, in an embedded cloud that is
 * gone afterwards; one evaluation worker answers its jobs.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { readJobs } from "./follow.ts";
import { type Bases, prepareRun } from "./prepare.ts";
import { openSession } from "./session.ts";
import type { Stop } from "./stop.ts";
import { evaluatorsOf, startWorkers } from "./workers.ts";

/** Tells of each job of the config's suites once, when it is done. Ends early when it is told to stop. */
export async function evaluateTeam(
  wanted: RunConfig,
  bases: Bases,
  questions: QuestionSet,
  stop: Stop,
  tell: (job: JobRecord) => void,
): Promise<void> {
  // No training follows that a suite could wait for.
  const suites = wanted.evaluation.suites.map((suite) => ({ ...suite, when: "every" as const }));
  const config: RunConfig = { ...wanted, evaluation: { ...wanted.evaluation, suites } };
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-eval-"));
  try {
    const session = await openSession(join(directory, "cloud"), join(directory, "functions.log"));
    try {
      await prepareRun(session, config, () => bases, questions);
      const token = randomBytes(24).toString("base64url");
      const environment = { ...session.environment, MGRPO_WORKER_TOKEN: token };
      const workers = startWorkers(evaluatorsOf(config), environment, directory);
      workers.failed.catch(stop.fail);
      const told = new Set<string>();
      while (!stop.signal.aborted && told.size < config.evaluation.suites.length) {
        for (const job of await readJobs(session.store, config.run)) {
          if (job.state !== "done" || told.has(job.job)) continue;
          told.add(job.job);
          tell(job);
        }
        await session.store.clock.sleep(0.25, stop.signal);
      }
      await workers.stop();
      stop.rethrow();
    } finally {
      await session.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
