/**
 * @file MLflow through its REST API (2.0). The run in MLflow carries our run's name and start time as tags, so that a
 * later process finds it even if the process that created it was killed. MLflow's database keeps one row per metric,
 * time, step and value, so a repeated batch changes nothing.
 */

import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { MetricLine } from "../../core/monitoring/metrics.ts";
import { redactor } from "../../core/redact.ts";
import type { Tracker } from "../../core/tracker.ts";
import { clip } from "../../core/well-formed.ts";
import { requestTracker } from "./request.ts";

export interface MlflowOptions {
  /** MLFLOW_TRACKING_URI: http or https. */
  readonly url: string;
  /** The Authorization header, from MLFLOW_TRACKING_TOKEN or a user and password. Empty: none. */
  readonly authorization: string;
  readonly experiment: string;
  readonly run: string;
  /** Tells runs with the same name apart. */
  readonly identity: string;
  /** When the run began, in wall-clock milliseconds. */
  readonly startedAt: number;
  /** The run's settings, flattened: `agents.main.model`. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** MLflow's own limits on a batch. The limit on a value's length is that of older servers. */
const BATCH = { metrics: 1000, parameters: 100, parameterCharacters: 500 };

const Experiment = z.object({ experiment: z.object({ experiment_id: z.string() }) });
const Created = z.object({ experiment_id: z.string() });
const Run = z.object({
  info: z.object({ run_id: z.string(), status: z.string().optional() }),
  /** MLflow omits empty lists. */
  data: z.object({ params: z.array(z.object({ key: z.string() })).default([]) }).optional(),
});
const Found = z.object({ runs: z.array(Run).default([]) });
const CreatedRun = z.object({ run: Run });
const Done = z.object({});

export function openMlflow(options: MlflowOptions): Tracker {
  let runId: Promise<string> | undefined;
  const id = (signal: AbortSignal): Promise<string> => {
    runId ??= openRun(options, signal).catch((error) => {
      runId = undefined;
      throw error;
    });
    return runId;
  };
  return {
    name: "mlflow",
    destination: `${options.url}, experiment ${options.experiment}`,
    async send(lines, signal) {
      const run_id = await id(signal);
      const metrics = lines.flatMap(metricsOf);
      for (let i = 0; i < metrics.length; i += BATCH.metrics) {
        await call(options, Done, "runs/log-batch", { run_id, metrics: metrics.slice(i, i + BATCH.metrics) }, signal);
      }
    },
    async finish(status, endedAt, signal) {
      const body = { run_id: await id(signal), status: status === "finished" ? "FINISHED" : "FAILED" };
      await call(options, Done, "runs/update", { ...body, end_time: endedAt }, signal);
    },
  };
}

const metricsOf = ({ step, time, metrics }: MetricLine) =>
  Object.entries(metrics).map(([key, value]) => ({
    key: nameOf(key),
    value,
    timestamp: time,
    step,
  }));

/** MLflow refuses other characters in the names of metrics and parameters, such as the `*` of `budget.usdPerWorkerHour.*`. */
const nameOf = (key: string): string => key.replaceAll(/[^\w./ -]/g, "_");

async function openRun(options: MlflowOptions, signal: AbortSignal): Promise<string> {
  const experiment_id = await openExperiment(options, signal);
  const filter = `tags.\`mgrpo.identity\` = '${options.identity}'`;
  const search = { experiment_ids: [experiment_id], filter, max_results: 1 };
  const [known] = (await call(options, Found, "runs/search", search, signal)).runs;
  const run_id = known?.info.run_id ?? (await createRun(options, experiment_id, signal));
  // It was halted, and has been resumed.
  if (known?.info.status === "FAILED") {
    await call(options, Done, "runs/update", { run_id, status: "RUNNING" }, signal);
  }
  // The process that created a known run may have been killed before it sent all parameters. MLflow refuses a changed value.
  const has = new Set(known?.data?.params.map(({ key }) => key));
  const params = Object.entries(options.parameters)
    .map(([key, value]) => ({ key: nameOf(key), value: clip(value, BATCH.parameterCharacters) }))
    .filter(({ key }) => !has.has(key));
  for (let i = 0; i < params.length; i += BATCH.parameters) {
    await call(options, Done, "runs/log-batch", { run_id, params: params.slice(i, i + BATCH.parameters) }, signal);
  }
  return run_id;
}

async function createRun(options: MlflowOptions, experiment_id: string, signal: AbortSignal): Promise<string> {
  const tags = [
    { key: "mlflow.runName", value: options.run },
    { key: "mgrpo.identity", value: options.identity },
  ];
  const body = { experiment_id, run_name: options.run, start_time: options.startedAt, tags };
  return (await call(options, CreatedRun, "runs/create", body, signal)).run.info.run_id;
}

async function openExperiment(options: MlflowOptions, signal: AbortSignal): Promise<string> {
  const found = await findExperiment(options, signal);
  if (found !== undefined) return found;
  const path = "experiments/create";
  const created = await request(options, path, { name: options.experiment }, signal);
  // MLflow refuses a name that it has: another run may have created the experiment meanwhile.
  const other = created.status === 400 ? await findExperiment(options, signal) : undefined;
  return other ?? accepted(options, Created, path, created).experiment_id;
}

/** The id of the experiment; undefined if there is none. */
async function findExperiment(options: MlflowOptions, signal: AbortSignal): Promise<string | undefined> {
  const path = `experiments/get-by-name?experiment_name=${encodeURIComponent(options.experiment)}`;
  const found = await request(options, path, undefined, signal);
  if (found.status === 404) return undefined;
  return accepted(options, Experiment, path, found).experiment.experiment_id;
}

async function call<S extends z.ZodType>(
  options: MlflowOptions,
  schema: S,
  path: string,
  body: object,
  signal: AbortSignal,
): Promise<z.infer<S>> {
  return accepted(options, schema, path, await request(options, path, body, signal));
}

interface MlflowResponse {
  readonly status: number;
  /** Without the credentials, which a proxy may repeat. */
  readonly text: string;
}

async function request(
  { url, authorization, run }: MlflowOptions,
  path: string,
  body: object | undefined,
  signal: AbortSignal,
): Promise<MlflowResponse> {
  const response = await requestTracker(
    {
      server: `MLflow at ${url}`,
      run,
      url: `${url.replace(/\/$/, "")}/api/2.0/mlflow/${path}`,
      headers: { "content-type": "application/json", ...(authorization !== "" && { authorization }) },
      body: body && JSON.stringify(body),
    },
    signal,
  );
  return { status: response.status, text: redactor([authorization])(new TextDecoder().decode(response.body)) };
}

function accepted<S extends z.ZodType>(
  { url }: MlflowOptions,
  schema: S,
  path: string,
  { status, text }: MlflowResponse,
): z.infer<S> {
  if (status >= 200 && status < 300) {
    return parseJson(schema, text, `MLflow at ${url}: response to ${path}`, "tracker-unavailable");
  }
  const retryable = status >= 500 || status === 429;
  const message = `MLflow at ${url} answered ${path} with ${status}: ${text.slice(0, 300)}`;
  throw new MgrpoError("tracker-unavailable", message, { retryable });
}
