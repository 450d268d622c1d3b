/**
 * @file One session of a local run, new or resumed: the embedded cloud, the workers, and the records followed to the end.
 *
 *     open cloud -> start or resume -> start workers -> follow --trained---> stop the workers that do not evaluate
 *                                                         |--finished------> stop workers -> export, report, curve
 *                                                         |--halted--------> stop workers, the reason, exit 1
 *                                                         |--Ctrl-C--------> drain workers, how to resume, exit 130
 *                                                         |--the run's folder is gone: drain workers, how to resume, exit 1
 *                                                         '--a worker cannot be kept alive: drain workers, its last error, exit 1
 *     SIGKILL at any point: the children end by themselves, and the next session resumes from the records.
 */
import { randomBytes } from "node:crypto";
import { openTrackers } from "../../adapters/trackers/open.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CaseStudy } from "../../core/recipe.ts";
import type { RaisedBudget } from "../../core/training/run-budget.ts";
import { notesOf } from "../notes.ts";
import type { RunReport } from "../run-report.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { MGRPO } from "../terminal/name.ts";
import { stepWarnings } from "../warnings.ts";
import { makeFolder } from "../writable-folder.ts";
import type { Bases } from "./base-models.ts";
import { type Display, openDisplay } from "./display.ts";
import { type EmbeddedCloud, openEmbeddedCloud } from "./embedded-cloud.ts";
import { exportCheckpoints, writeHeldOut, writeReport } from "./finish.ts";
import { followRun } from "./follow.ts";
import { RunHistory } from "./history.ts";
import { type FolderWatch, watchFolder } from "./moved-folder.ts";
import { readRun, readSpending } from "./read-records.ts";
import { refuseEdited } from "./resume-in-store.ts";
import type { RunFolder } from "./run-folder.ts";
import { startOrResume } from "./start-or-resume.ts";
import { type Stop, watchForStop } from "./stop.ts";
import { readTracedRollouts } from "./traced-rollouts.ts";
import { lockTrackers, Tracking } from "./tracking.ts";
import { inFlightIn, startWorkers, workersOf } from "./workers.ts";

const POLL_SECONDS = 0.5;

export interface LocalTraining {
  readonly config: RunConfig;
  readonly folder: RunFolder;
  /** Called, like `questions`, only if the run has not started yet. */
  readonly bases: () => Bases | Promise<Bases>;
  readonly questions: () => QuestionSet | Promise<QuestionSet>;
  readonly caseStudies?: readonly CaseStudy[] | undefined;
  /** Extends the budget of a run that has started. */
  readonly raised?: RaisedBudget;
}

/** The report of the finished run; undefined if the user stopped it. Rejects if it halts, or if a worker cannot be kept alive. */
export async function trainLocally(training: LocalTraining): Promise<RunReport | undefined> {
  const { config, folder, bases, questions, raised } = training;
  makeFolder(folder.logs);
  const cloud = await openEmbeddedCloud(folder.cloud, `${folder.logs}/functions.log`);
  const stop = watchForStop();
  const presence = watchRunFolder(training, stop);
  let display: Display | undefined;
  let unlockTrackers: (() => Promise<void>) | undefined;
  try {
    if (config.track.length > 0) unlockTrackers = await lockTrackers(folder, "resume the run later");
    await refuseEdited(cloud.store, config, folder.config);
    await startOrResume(cloud, config, bases, questions, raised);
    const history = new RunHistory(config, folder, cloud);
    display = openDisplay(config, history.steps);
    const tracking = await openTracking(training, cloud, history, display);
    try {
      await followWithWorkers(training, cloud, history, display, stop, tracking);
    } finally {
      await finishTracking(config.run, tracking, history, display);
    }
    presence.check();
    return await conclude(training, cloud, history, display, stop);
  } catch (error) {
    presence.check();
    throw error;
  } finally {
    display?.close();
    presence.dispose();
    stop.dispose();
    await cloud.close();
    await unlockTrackers?.();
  }
}

function watchRunFolder({ config: { run }, folder }: LocalTraining, { fail }: Stop): FolderWatch {
  const remedy = `put it back at ${folder.path} and run ${MGRPO} resume ${run}`;
  const message = `the folder of run '${run}' was moved or deleted while it trained, so training has stopped: to continue, ${remedy}`;
  return watchFolder(folder.cloud, message, fail);
}

/** Trains until the run ends or is stopped. */
async function followWithWorkers(
  { config, folder }: LocalTraining,
  cloud: EmbeddedCloud,
  history: RunHistory,
  display: Display,
  stop: Stop,
  tracking: Tracking,
): Promise<void> {
  const environment = { ...cloud.environment, MGRPO_WORKER_TOKEN: randomBytes(24).toString("base64url") };
  const workers = startWorkers(workersOf(config), environment, folder.logs, inFlightIn(cloud.store.table, config.run));
  workers.failed.catch(stop.fail);
  cloud.onAdvance(() => workers.hint());
  try {
    const options = { from: history.steps.length, pollSeconds: POLL_SECONDS, signal: stop.signal };
    for await (const event of followRun(cloud.store, config, options)) {
      history.record(event);
      display.event(event);
      tracking.wake();
      if (event.kind === "trained") workers.finishTraining().catch(stop.fail);
      if (event.kind === "step")
        for (const line of stepWarnings(config, history.steps)) display.print(`warning: ${line}`);
    }
  } finally {
    await workers.stop();
  }
}

async function openTracking(
  { config, folder }: LocalTraining,
  { store }: EmbeddedCloud,
  { metrics }: RunHistory,
  display: Display,
): Promise<Tracking> {
  const { startedAt } = await readRun(store, config.run);
  const noteOf = await notesOf(config.recipe);
  const trackers = openTrackers(
    config,
    folder.path,
    startedAt,
    (step) => readTracedRollouts(store, config, step, noteOf),
    process.env,
    (line) => display.print(`warning: ${stripControlCharacters(line)}`),
  );
  const warn = (reason: string, isRetried: boolean) => {
    const what = isRetried ? "; training continues, and sending is retried until the run ends" : "";
    display.print(`warning: ${reason}${what}`);
  };
  return new Tracking({ trackers, lines: metrics.lines, positions: folder.trackers, warn });
}

/** A stopped run can be resumed, so its trackers are not notified of an end. */
async function finishTracking(run: string, tracking: Tracking, { ended }: RunHistory, display: Display): Promise<void> {
  const incomplete = await tracking.finish(ended && (ended.status === "finished" ? "finished" : "failed"));
  for (const name of incomplete)
    display.print(`${name} may lack some metrics, or the run's end: send them with ${MGRPO} track ${run}`);
}

async function conclude(
  { config, folder, caseStudies = [] }: LocalTraining,
  cloud: EmbeddedCloud,
  history: RunHistory,
  display: Display,
  stop: Stop,
): Promise<RunReport | undefined> {
  const resume = `${MGRPO} resume ${config.run}`;
  history.usd = (await readSpending(cloud.store, config)).usd;
  if (history.ended === undefined) {
    history.save("stopped");
    stop.rethrow();
    display.print(`stopped after step ${history.steps.length} of ${config.steps}; to continue: ${resume}`);
    process.exitCode = 130;
    return undefined;
  }
  if (history.ended.status === "halted") {
    const { reason } = history.ended;
    history.save("halted", reason);
    throw new MgrpoError("run-halted", `run '${config.run}' halted: ${reason}; to continue: ${resume}`);
  }
  const { step } = await readRun(cloud.store, config.run);
  const agents = await exportCheckpoints(cloud.store, config, folder.checkpoints, step);
  const warn = (line: string) => display.print(`warning: ${stripControlCharacters(line)}`);
  const heldOut = await writeHeldOut(cloud.store, config, folder, caseStudies, warn);
  return writeReport(config, folder, history.save("finished"), history.steps, history.evaluations, heldOut, agents);
}
