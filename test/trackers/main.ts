/**
 * @file `npm run check:trackers`: trains two steps of the default recipe with trackers on, then compares what TensorBoard and MLflow have
 * recorded with the run's own files: the metrics in both, and in MLflow the numbers of traces and of agents' spans. MLflow must have
 * exactly one run, finished and with settings. Then everything is sent again, and nothing may be recorded twice. Not part of CI: it installs
 * about 1 GB of packages from PyPI. Exit code 1 if something differs, 2 on any other error, such as a failed installation or a failed `mgrpo train`.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import * as z from "zod";
import { MetricLine } from "../../core/monitoring/metrics.ts";
import { makePython } from "../python.ts";
import { startMlflow, TRACKER_PACKAGES } from "./mlflow.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const COMMAND = join(ROOT, "dist/cli/mgrpo.js");
const RUN = "tracked";
const SETTINGS = [
  'track=["tensorboard","mlflow","otlp"]',
  'evaluation.suites=[{"name":"held-out","questions":16}]',
  "questionsPerStep=4",
];

/** MLflow does not have exactly one finished run with settings, so there is nothing to compare. */
class Mismatch extends Error {}

/** By metric: step and value of each of its points. */
type Points = ReadonlyMap<string, readonly (readonly [step: number, value: number])[]>;

const Scalars = z.record(z.string(), z.array(z.tuple([z.number(), z.number()])));
const History = z.object({ metrics: z.array(z.object({ step: z.coerce.number(), value: z.number() })).default([]) });
const Found = z.object({
  runs: z.array(
    z.object({
      info: z.object({ run_id: z.string(), status: z.string() }),
      data: z.object({ params: z.array(z.object({ key: z.string() })) }),
    }),
  ),
});

const Step = z.object({ rollouts: z.number(), calls: z.object({ searcher: z.array(z.number()) }) });
const Traces = z.object({ traces: z.number(), spans: z.record(z.string(), z.number()) });

async function main(folder: string): Promise<string[]> {
  const bin = makePython(folder, TRACKER_PACKAGES, "1 GB");
  const mlflow = await startMlflow(bin, folder);
  const mgrpo = (...args: string[]) =>
    execFileSync(process.execPath, [COMMAND, ...args], {
      ...{ cwd: folder, stdio: ["ignore", "ignore", "inherit"] },
      env: { ...process.env, ...addresses(mlflow.url) },
    });
  try {
    const settings = SETTINGS.flatMap((setting) => ["--set", setting]);
    mgrpo("train", join(ROOT, "recipes/atlas"), "--steps", "2", "--seed", "7", "--run", RUN, ...settings);
    const own = (file: string) => join(folder, "runs", RUN, file);
    const wanted = ownMetrics(own("metrics.jsonl"));
    const counts = ownCounts(own("steps.jsonl"));
    const compare = async (when: string) => [
      ...differences(`TensorBoard ${when}`, wanted, readEvents(bin, own("tensorboard"))),
      ...differences(`MLflow ${when}`, wanted, await readMlflow(mlflow.url, [...wanted.keys()])),
      ...differences(`MLflow's traces ${when}`, counts, readTraces(bin, mlflow.url)),
    ];
    const first = await compare("after the run");
    // Without the saved positions, every tracker gets every line again.
    rmSync(own("trackers.json"));
    mgrpo("track", RUN);
    return [...first, ...(await compare("after everything is sent again"))];
  } finally {
    await mlflow.close();
  }
}

/** MLflow takes the metrics, and also the traces, which go to its default experiment. */
const addresses = (url: string) => ({
  MLFLOW_TRACKING_URI: url,
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_HEADERS: "x-mlflow-experiment-id=0",
});

/** The numbers of traces and of agents' spans that MLflow should have, from the run's step records, as points at step 0. */
function ownCounts(path: string): Points {
  const lines = readFileSync(path, "utf8").trim().split("\n");
  const steps = lines.map((line) => Step.parse(JSON.parse(line)));
  const rollouts = steps.reduce((sum, step) => sum + step.rollouts, 0);
  const delegations = steps.flatMap(({ calls }) => calls.searcher.map((count, d) => count * d));
  return countPoints({
    traces: rollouts,
    "invoke_agent main": rollouts,
    "invoke_agent searcher": delegations.reduce((sum, count) => sum + count, 0),
  });
}

function readTraces(bin: string, url: string): Points {
  const script = join(import.meta.dirname, "read_traces.py");
  const printed = execFileSync(join(bin, "python"), [script, url], { stdio: ["ignore", "pipe", "ignore"] });
  const { traces, spans } = Traces.parse(JSON.parse(printed.toString("utf8")));
  const agents = Object.entries(spans).filter(([name]) => name.startsWith("invoke_agent "));
  return countPoints({ traces, ...Object.fromEntries(agents) });
}

const countPoints = (counts: Readonly<Record<string, number>>): Points =>
  new Map(Object.entries(counts).map(([name, count]) => [name, [[0, count]]]));

function ownMetrics(path: string): Points {
  const points = new Map<string, [number, number][]>();
  for (const line of readFileSync(path, "utf8").trim().split("\n")) {
    const { step, metrics } = MetricLine.parse(JSON.parse(line));
    for (const [name, value] of Object.entries(metrics)) points.set(name, [...(points.get(name) ?? []), [step, value]]);
  }
  return points;
}

function readEvents(bin: string, folder: string): Points {
  const script = join(import.meta.dirname, "read_events.py");
  const printed = execFileSync(join(bin, "python"), [script, folder], { stdio: ["ignore", "pipe", "ignore"] });
  return new Map(Object.entries(Scalars.parse(JSON.parse(printed.toString("utf8")))));
}

async function readMlflow(url: string, names: readonly string[]): Promise<Points> {
  const api = async (path: string, body?: object) => {
    const request = body ? { method: "POST", body: JSON.stringify(body) } : {};
    // The server closes idle connections while this process waits for a child process, so each request opens a new one.
    const headers = { "content-type": "application/json", connection: "close" };
    const response = await fetch(`${url}/api/2.0/mlflow/${path}`, { ...request, headers });
    if (!response.ok) throw new Error(`MLflow: ${path} returned ${response.status}: ${await response.text()}`);
    return response.json();
  };
  const experiments = z
    .object({ experiments: z.array(z.object({ experiment_id: z.string() })) })
    .parse(await api("experiments/search", { max_results: 100 }));
  const ids = experiments.experiments.map(({ experiment_id }) => experiment_id);
  const { runs } = Found.parse(await api("runs/search", { experiment_ids: ids }));
  const [run, ...others] = runs;
  if (!run || others.length > 0 || run.info.status !== "FINISHED" || run.data.params.length === 0)
    throw new Mismatch(
      `MLflow should have one finished run with settings, and has ${JSON.stringify(runs).slice(0, 300)}`,
    );
  const points = new Map<string, [number, number][]>();
  for (const name of names) {
    const query = new URLSearchParams({ run_id: run.info.run_id, metric_key: name, max_results: "1000" });
    const { metrics } = History.parse(await api(`metrics/get-history?${query}`));
    points.set(
      name,
      metrics.map(({ step, value }) => [step, value]),
    );
  }
  return points;
}

/** Compares values as 32-bit floats, as TensorBoard keeps them. */
function differences(where: string, wanted: Points, found: Points): string[] {
  const text = (points: Points, name: string) =>
    JSON.stringify((points.get(name) ?? []).map(([step, value]) => [step, Math.fround(value)]).sort());
  const names = [...new Set([...wanted.keys(), ...found.keys()])];
  const other = names.filter((name) => text(wanted, name) !== text(found, name));
  console.log(`${where}: ${names.length - other.length} of ${names.length} series match the run's files`);
  return other.map((name) => `${where}, ${name}: ${text(found, name)} instead of ${text(wanted, name)}`);
}

const folder = mkdtempSync(join(tmpdir(), "mgrpo-trackers-"));
try {
  const found = await main(folder);
  for (const line of found) console.error(line);
  if (found.length > 0) process.exitCode = 1;
} catch (error) {
  console.error(`check:trackers: ${(error as Error).message}`);
  process.exitCode = error instanceof Mismatch ? 1 : 2;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
