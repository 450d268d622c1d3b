/**
 * @file One session of a local run, new or resumed: the embedded cloud, the workers, and the records followed to the end.
 *
 *     open cloud -> prepare -> start workers -> follow --finished--> stop workers -> export, report, curve
 *                                                 |--halted--------> stop workers, the reason, exit 1
 *                                                 |--Ctrl-C--------> drain workers, how to resume, exit 130
 *                                                 '--a worker cannot be kept alive: the same, with its last words, exit 1
 *     SIGKILL at any point: the children end by themselves, and the next session goes on from the records.
 */

import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import type { RunConfig } from "../../core/contracts/config.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CaseStudy } from "../../core/recipe.ts";
import type { Extension } from "../../core/training/budget.ts";
import { type Evaluation, heldOut, type Report } from "../report.ts";
import { StepSummary } from "../summary.ts";
import { type Display, openDisplay } from "../terminal/display.ts";
import { MGRPO } from "../terminal/name.ts";
import { stepWarnings } from "../warnings.ts";
import { exportCheckpoints, writeHeldOut, writeReport } from "./finish.ts";
import { followRun, type RunEvent } from "./follow.ts";
import { type Bases, prepareRun } from "./prepare.ts";
import { type RunFolder, type RunStatus, readStatus, writeAtomically, writeStatus } from "./run-folder.ts";
import { openSession, type Session } from "./session.ts";
import { watchForStop } from "./stop.ts";
import { startWorkers, workersOf } from "./workers.ts";

const POLL_SECONDS = 0.5;

/** A display of its own, a bench's silence for instance, may be given. */
export interface LocalRun {
  readonly config: RunConfig;
  readonly folder: RunFolder;
  readonly bases: () => Bases | Promise<Bases>;
  readonly questions: () => QuestionSet | Promise<QuestionSet>;
  readonly caseStudies?: readonly CaseStudy[] | undefined;
  readonly display?: Display;
  /** Adds to the budget of a run that is there. */
  readonly extension?: Extension;
}

/** The report of the finished run; undefined when the user stopped it. Rejects when it halted. */
export async function runLocally({
  config,
  folder,
  bases,
  questions,
  caseStudies = [],
  display = openDisplay(config),
  extension,
}: LocalRun): Promise<Report | undefined> {
  mkdirSync(folder.logs, { recursive: true });
  const session = await openSession(folder.cloud, `${folder.logs}/functions.log`);
  const stop = watchForStop();
  try {
    await prepareRun(session, config, bases, questions, extension);
    const ledger = openLedger(config, folder, session);
    const environment = { ...session.environment, MGRPO_WORKER_TOKEN: randomBytes(24).toString("base64url") };
    const workers = startWorkers(workersOf(config), environment, folder.logs);
    workers.failed.catch(stop.fail);
    session.onMoved(workers.hint);
    try {
      await follow(session, config, ledger, display, stop.signal);
    } finally {
      await workers.stop();
    }
    if (ledger.ended === undefined) {
      ledger.save("stopped");
      stop.rethrow();
      display.say(
        `stopped after step ${ledger.steps.length} of ${config.steps}; go on with: ${MGRPO} resume ${config.run}`,
      );
      process.exitCode = 130;
      return undefined;
    }
    if (ledger.ended.status === "halted") {
      ledger.save("halted", ledger.ended.reason);
      throw new MgrpoError(
        "run-halted",
        `run '${config.run}' halted: ${ledger.ended.reason}; then: ${MGRPO} resume ${config.run}`,
      );
    }
    const agents = await exportCheckpoints(session.store, config, folder.checkpoints);
    const studies = await writeHeldOut(session.store, config, folder, caseStudies);
    const status = ledger.save("finished");
    return writeReport(config, folder, status, ledger.steps, ledger.evaluations, studies, agents);
  } finally {
    display.close();
    stop.dispose();
    await session.close();
  }
}

async function follow(
  session: Session,
  config: RunConfig,
  ledger: Ledger,
  display: Display,
  signal: AbortSignal,
): Promise<void> {
  const options = { from: ledger.steps.length, pollSeconds: POLL_SECONDS, signal };
  for await (const event of followRun(session.store, config, options)) {
    ledger.record(event);
    display.event(event);
    if (event.kind === "step") for (const line of stepWarnings(config, ledger.steps)) display.say(line);
  }
}

/** What this run has shown so far, kept on disk as it comes, so that a resumed run reports all of it. */
interface Ledger {
  readonly steps: StepSummary[];
  readonly evaluations: Evaluation[];
  readonly ended: Extract<RunEvent, { kind: "ended" }> | undefined;
  record(event: RunEvent): void;
  save(state: RunStatus["state"], reason?: string): RunStatus;
}

function openLedger(config: RunConfig, folder: RunFolder, session: Session): Ledger {
  const before = readStatus(folder);
  const started = performance.now();
  let scoringSeconds = before.scoringSeconds;
  const steps = readSteps(folder);
  // Without a line that was cut short: what is appended must begin a line.
  if (existsSync(folder.steps))
    writeAtomically(folder.steps, steps.map((step) => `${JSON.stringify(step)}\n`).join(""));
  const evaluations: Evaluation[] = [];
  let ended: Ledger["ended"];

  function save(state: RunStatus["state"], reason = ""): RunStatus {
    const share = (team: number) => {
      const score = heldOut(evaluations, team);
      return score && score.n > 0 ? score.correct / score.n : null;
    };
    const writes = session.writes();
    scoringSeconds += session.takeScoringSeconds();
    const running = state === "running";
    const status: RunStatus = {
      ...before,
      steps: state === "finished" ? steps.length : config.steps,
      step: steps.length,
      state,
      reason,
      pid: running ? process.pid : 0,
      environment: running ? { ...session.environment } : {},
      seconds: before.seconds + (performance.now() - started) / 1000,
      scoringSeconds,
      writes: {
        requests: before.writes.requests + writes.requests,
        bytes: before.writes.bytes + writes.bytes,
        units: before.writes.units + writes.units,
      },
      heldOut: { before: share(0), after: state === "finished" ? share(steps.length) : null },
      evaluations,
    };
    writeStatus(folder, status);
    return status;
  }

  save("running");
  return {
    steps,
    evaluations,
    get ended() {
      return ended;
    },
    record(event) {
      if (event.kind === "ended") ended = event;
      if (event.kind === "evaluation") evaluations.push(event.evaluation);
      if (event.kind === "step") {
        steps.push(event.summary);
        appendFileSync(folder.steps, `${JSON.stringify(event.summary)}\n`);
      }
      if (event.kind !== "waiting") save("running");
    },
    save,
  };
}

/** A line cut short by a kill is dropped: its step is read from the records again. */
export function readSteps(folder: RunFolder): StepSummary[] {
  if (!existsSync(folder.steps)) return [];
  const lines = readFileSync(folder.steps, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => parseJson(StepSummary, line, folder.steps));
}
