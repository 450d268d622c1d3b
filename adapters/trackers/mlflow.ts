/**
 * @file MLflow by its REST API (2.0). The run in MLflow carries the name and the start of ours as tags, so that a process that was killed
 * after it had created the run finds it again. MLflow keeps one row per metric, time, step and value, so a repeated batch changes nothing.
 */
import * as z from "zod";
import { MgrpoError } from "../../core/errors.ts";
import type { MetricLine } from "../../core/monitoring/metrics.ts";
import type { Tracker } from "../../core/tracker.ts";

export interface MlflowOptions {
  /** MLFLOW_TRACKING_URI: http or https. */
  readonly url: string;
  /** MLFLOW_TRACKING_TOKEN, or user and password. Empty: no authorization. */
  readonly authorization: string;
  readonly experiment: string;
  readonly run: string;
  /** Tells runs of one name apart. */
  readonly identity: string;
  /** The run's settings, flat. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** MLflow's own limits of a batch. */
const BATCH = { metrics: 1000, parameters: 100, parameterCharacters: 500 };
const SECONDS = 20;

const Experiment = z.object({ experiment: z.object({ experiment_id: z.string() }) });
const Created = z.object({ experiment_id: z.string() });
const Run = z.object({
  info: z.object({ run_id: z.string() }),
  /** Without any, MLflow leaves them out. */
  data: z.object({ params: z.array(z.object({ key: z.string() })).default([]) }).optional(),
});
const Found = z.object({ runs: z.array(Run).default([]) });
const CreatedRun = z.object({ run: Run });

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
    async send(lines, signal) {
      const run_id = await id(signal);
      const metrics = lines.flatMap(metricsOf);
      for (let i = 0; i < metrics.length; i += BATCH.metrics) {
        await call(options, "runs/log-batch", { run_id, metrics: metrics.slice(i, i + BATCH.metrics) }, signal);
      }
    },
    async finish(status, signal) {
      const body = { run_id: await id(signal), status: status === "finished" ? "FINISHED" : "FAILED" };
      await call(options, "runs/update", { ...body, end_time: Date.now() }, signal);
    },
  };
}

const metricsOf = ({ step, time, metrics }: MetricLine) =>
  Object.entries(metrics).map(([key, value]) => ({
    key: key.replaceAll(/[^\w./ -]/g, "_"),
    value,
    timestamp: time,
    step,
  }));

async function openRun(options: MlflowOptions, signal: AbortSignal): Promise<string> {
  const experiment_id = await openExperiment(options, signal);
  const filter = `tags.\`mgrpo.identity\` = '${options.identity}'`;
  const search = { experiment_ids: [experiment_id], filter, max_results: 1 };
  const [known] = Found.parse(await call(options, "runs/search", search, signal)).runs;
  const run_id = known?.info.run_id ?? (await createRun(options, experiment_id, signal));
  // The process that created a known run may have been killed before it sent them all. MLflow refuses another value of one that it has.
  const has = new Set(known?.data?.params.map(({ key }) => key));
  const params = Object.entries(options.parameters)
    .filter(([key]) => !has.has(key))
    .map(([key, value]) => ({ key, value: value.slice(0, BATCH.parameterCharacters) }));
  for (let i = 0; i < params.length; i += BATCH.parameters) {
    await call(options, "runs/log-batch", { run_id, params: params.slice(i, i + BATCH.parameters) }, signal);
  }
  return run_id;
}

async function createRun(options: MlflowOptions, experiment_id: string, signal: AbortSignal): Promise<string> {
  const tags = [
    { key: "mlflow.runName", value: options.run },
    { key: "mgrpo.identity", value: options.identity },
  ];
  const body = { experiment_id, run_name: options.run, start_time: Date.now(), tags };
  return CreatedRun.parse(await call(options, "runs/create", body, signal)).run.info.run_id;
}

async function openExperiment(options: MlflowOptions, signal: AbortSignal): Promise<string> {
  const name = encodeURIComponent(options.experiment);
  const found = await call(options, `experiments/get-by-name?experiment_name=${name}`, undefined, signal, [404]);
  if (found !== undefined) return Experiment.parse(found).experiment.experiment_id;
  const made = await call(options, "experiments/create", { name: options.experiment }, signal);
  return Created.parse(made).experiment_id;
}

/** `absent`: statuses that mean that there is no such thing. */
async function call(
  { url, authorization }: MlflowOptions,
  path: string,
  body: object | undefined,
  signal: AbortSignal,
  absent: readonly number[] = [],
): Promise<unknown> {
  const timeout = AbortSignal.any([signal, AbortSignal.timeout(SECONDS * 1000)]);
  const headers = { "content-type": "application/json", ...(authorization !== "" && { authorization }) };
  const request = body ? { method: "POST", body: JSON.stringify(body) } : { method: "GET" };
  const where = `${url.replace(/\/$/, "")}/api/2.0/mlflow/${path}`;
  const response = await fetch(where, { ...request, headers, signal: timeout }).catch((cause: unknown) => {
    throw new MgrpoError("tracker-unavailable", `MLflow at ${url} does not answer`, { retryable: true, cause });
  });
  if (absent.includes(response.status)) return undefined;
  if (response.ok) return response.json();
  const retryable = response.status >= 500 || response.status === 429;
  const said = (await response.text()).slice(0, 300);
  throw new MgrpoError("tracker-unavailable", `MLflow at ${url}: ${path} got ${response.status}: ${said}`, {
    retryable,
  });
}
