/** @file MLflow's REST API, against a server that responds as MLflow documents; and the environment variables that configure it. */
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openMlflow } from "../../../adapters/trackers/mlflow.ts";
import { checkTrackers, openTrackers } from "../../../adapters/trackers/open.ts";
import { RunConfig } from "../../../core/contracts/config.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { relayConfig } from "../../fixtures/relay/start.ts";

const never = new AbortController().signal;

interface Logged {
  readonly run_id: string;
  readonly metrics?: readonly { key: string; value: number; timestamp: number; step: number }[];
  readonly params?: readonly { key: string; value: string }[];
}

let runs: { id: string; identity: string; status: string; start: number; end?: number }[] = [];
let logged: Logged[] = [];
let experiments: string[] = [];
let authorizations: (string | undefined)[] = [];
let isDown = false;
let isBehindLogin = false;
/** Whether another run creates the experiment right after a look-up that did not find it. */
let isRaced = false;
let server: ReturnType<typeof serve>;
let url = "";

const runOf = ({ id, status }: { readonly id: string; readonly status: string }) => {
  const params = logged.filter(({ run_id }) => run_id === id).flatMap((one) => one.params ?? []);
  return { info: { run_id: id, status }, ...(params.length > 0 && { data: { params } }) };
};

function mlflow(): Hono {
  const app = new Hono().basePath("/api/2.0/mlflow");
  app.use(async (context, next) => {
    authorizations.push(context.req.header("authorization"));
    if (isDown) return context.text(`down: ${context.req.header("authorization")}`, 503);
    if (isBehindLogin) return context.html("<html>Sign in</html>");
    return next();
  });
  app.get("/experiments/get-by-name", (context) => {
    const name = context.req.query("experiment_name") ?? "";
    const id = experiments.indexOf(name);
    if (id < 0 && isRaced) experiments.push(name);
    if (id < 0) return context.json({ error_code: "RESOURCE_DOES_NOT_EXIST" }, 404);
    return context.json({ experiment: { experiment_id: String(id) } });
  });
  app.post("/experiments/create", async (context) => {
    const { name } = await context.req.json();
    if (experiments.includes(name)) return context.json({ error_code: "RESOURCE_ALREADY_EXISTS" }, 400);
    experiments.push(name);
    return context.json({ experiment_id: String(experiments.length - 1) });
  });
  app.post("/runs/search", async (context) => {
    const { filter } = await context.req.json();
    const found = runs.filter(({ identity }) => filter === `tags.\`mgrpo.identity\` = '${identity}'`);
    return context.json(found.length > 0 ? { runs: found.map(runOf) } : {});
  });
  app.post("/runs/create", async (context) => {
    const { tags, start_time } = await context.req.json();
    const id = `run-${runs.length}`;
    runs.push({
      id,
      identity: tags.find((tag: { key: string }) => tag.key === "mgrpo.identity").value,
      status: "RUNNING",
      start: start_time,
    });
    return context.json({ run: { info: { run_id: id } } });
  });
  app.post("/runs/log-batch", async (context) => {
    logged.push(await context.req.json());
    return context.json({});
  });
  app.post("/runs/update", async (context) => {
    const { run_id, status, end_time } = await context.req.json();
    runs = runs.map((run) => (run.id === run_id ? { ...run, status, end: end_time } : run));
    return context.json({});
  });
  return app;
}

beforeEach(async () => {
  [runs, logged, experiments, authorizations, isDown] = [[], [], [], [], false];
  [isBehindLogin, isRaced] = [false, false];
  url = await new Promise((resolve) => {
    server = serve(
      { fetch: mlflow().fetch, overrideGlobalObjects: false, hostname: "127.0.0.1", port: 0 },
      ({ port }: AddressInfo) => resolve(`http://127.0.0.1:${port}`),
    );
  });
});
afterEach(() => server.close());

const open = (parameters: Record<string, string> = { seed: "7", "agents.main.system": "x".repeat(2000) }) =>
  openMlflow({
    url,
    authorization: "Bearer secret",
    experiment: "mgrpo",
    run: "look",
    identity: "look@1",
    startedAt: 1,
    parameters,
  });
const line = (step: number) => ({
  step,
  time: 1000 + step,
  source: "step",
  metrics: { "reward/main/mean": step / 10 },
});

test("a run is created once, with its settings, and gets every metric at its step and time", async () => {
  const tracker = open();
  await tracker.send([line(1), line(2)], never);
  await tracker.finish("finished", 1002, never);
  expect(runs).toEqual([{ id: "run-0", identity: "look@1", status: "FINISHED", start: 1, end: 1002 }]);
  const [params, metrics] = logged;
  expect(params?.params?.map(({ key, value }) => [key, value.length])).toEqual([
    ["seed", 1],
    ["agents.main.system", 500],
  ]);
  expect(metrics?.metrics).toEqual([
    { key: "reward/main/mean", value: 0.1, timestamp: 1001, step: 1 },
    { key: "reward/main/mean", value: 0.2, timestamp: 1002, step: 2 },
  ]);
  expect(new Set(authorizations)).toEqual(new Set(["Bearer secret"]));
});

test("another process finds the run again, and a server that was down gets the lines later", async () => {
  isDown = true;
  const tracker = open();
  await expect(tracker.send([line(1)], never)).rejects.toMatchObject({ code: "tracker-unavailable", retryable: true });
  isDown = false;
  await tracker.send([line(1)], never);
  await open().send([line(2)], never);
  expect(logged.flatMap(({ metrics = [] }) => metrics.map(({ step }) => step))).toEqual([1, 2]);
  expect(runs).toHaveLength(1);
  expect(experiments).toEqual(["mgrpo"]);
});

test("a run that was halted runs again once it is resumed, until it ends", async () => {
  await open().send([line(1)], never);
  await open().finish("failed", 1001, never);
  const resumed = open();
  await resumed.send([line(2)], never);
  expect(runs).toMatchObject([{ status: "RUNNING" }]);
  await resumed.finish("finished", 1002, never);
  expect(runs).toMatchObject([{ status: "FINISHED", end: 1002 }]);
});

test("settings and metrics beyond MLflow's limits on a batch are sent in several batches, each once", async () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `name${i}`);
  const tracker = open(Object.fromEntries(names(250).map((name) => [name, "value"])));
  const metrics = Object.fromEntries(names(700).map((name, i) => [name, i]));
  await tracker.send(
    [
      { ...line(1), metrics },
      { ...line(2), metrics },
      { ...line(3), metrics },
    ],
    never,
  );
  expect(logged.map((batch) => [batch.params?.length ?? 0, batch.metrics?.length ?? 0])).toEqual([
    [100, 0],
    [100, 0],
    [50, 0],
    [0, 1000],
    [0, 1000],
    [0, 100],
  ]);
  expect(logged.flatMap(({ params = [] }) => params.map(({ key }) => key))).toEqual(names(250));
  const sent = logged.flatMap((batch) => batch.metrics ?? []);
  expect(new Set(sent.map(({ key, step }) => `${key} ${step}`)).size).toBe(2100);
});

test("a long setting is cut between characters, not within a surrogate pair", async () => {
  await open({ system: `${"x".repeat(499)}\u{1f30d}` }).send([line(1)], never);
  expect(logged[0]?.params).toEqual([{ key: "system", value: "x".repeat(499) }]);
});

test("an experiment that another run creates at the same moment is used", async () => {
  isRaced = true;
  await open().send([line(1)], never);
  expect(experiments).toEqual(["mgrpo"]);
  expect(runs).toHaveLength(1);
});

test("names of settings have only characters that MLflow accepts, and a later process recognizes them and sends none twice", async () => {
  for (let session = 0; session < 2; session++) await open({ "budget.usdPerWorkerHour.*": "2" }).send([line(1)], never);
  expect(logged.flatMap(({ params = [] }) => params)).toEqual([{ key: "budget.usdPerWorkerHour._", value: "2" }]);
});

test("a send that runs out of time says so, and names the command that sends the rest", async () => {
  const sending = open().send([line(1)], AbortSignal.abort());
  await expect(sending).rejects.toThrow(/no time to send everything .*`mgrpo track look`/);
});

test("an HTML page in place of MLflow's response is reported with the address", async () => {
  isBehindLogin = true;
  await expect(open().send([line(1)], never)).rejects.toMatchObject({
    code: "tracker-unavailable",
    message: `MLflow at ${url}: response to experiments/get-by-name?experiment_name=mgrpo: not JSON`,
  });
});

test("a missing or unusable address is refused before the run", () => {
  expect(() => checkTrackers({ track: ["mlflow"], trackContent: false }, {})).toThrow(
    /MLFLOW_TRACKING_URI, which is empty or not set/,
  );
  expect(() => checkTrackers({ track: ["mlflow"], trackContent: false }, { MLFLOW_TRACKING_URI: "file:///x" })).toThrow(
    /not an http or https address/,
  );
  expect(() => checkTrackers({ track: ["tensorboard"], trackContent: false }, {})).not.toThrow();
});

test("a token that no header can hold is refused before the run, and not repeated", () => {
  const environment = { MLFLOW_TRACKING_URI: url, MLFLOW_TRACKING_TOKEN: "secret\ntoken" };
  expect(() => checkTrackers({ track: ["mlflow"], trackContent: false }, environment)).toThrow(
    new MgrpoError(
      "config-invalid",
      "track: mlflow: MLFLOW_TRACKING_TOKEN has a character that HTTP does not allow in a header: correct it",
    ),
  );
});

test("a run that was created with only some of its settings gets the missing ones, once", async () => {
  runs = [{ id: "run-0", identity: "look@1", status: "RUNNING", start: 1 }];
  logged = [{ run_id: "run-0", params: [{ key: "seed", value: "6" }] }];
  for (let session = 0; session < 2; session++) await open().send([line(1)], never);
  expect(logged.flatMap(({ params = [] }) => params.map(({ key }) => key))).toEqual(["seed", "agents.main.system"]);
});

const trackersOf = (config: RunConfig, environment: Readonly<Record<string, string>>) =>
  openTrackers(
    config,
    "unused",
    0,
    async () => [],
    environment,
    () => {},
  );

test("a tracker that is named twice is opened once", () => {
  const config = RunConfig.parse({ ...relayConfig(), track: ["tensorboard", "mlflow", "tensorboard"] });
  const names = trackersOf(config, { MLFLOW_TRACKING_URI: url }).map(({ name }) => name);
  expect(names).toEqual(["tensorboard", "mlflow"]);
});

test("a password without a user is also taken from the address; an empty experiment name means 'mgrpo'", async () => {
  const config = RunConfig.parse({ ...relayConfig(), track: ["mlflow"] });
  const environment = { MLFLOW_TRACKING_URI: url.replace("//", "//:word@"), MLFLOW_EXPERIMENT_NAME: "" };
  const [tracker] = trackersOf(config, environment);
  await tracker?.send([line(1)], never);
  expect(new Set(authorizations)).toEqual(new Set([`Basic ${Buffer.from(":word").toString("base64")}`]));
  expect(experiments).toEqual(["mgrpo"]);
});

test("a user and password come before a token, and a token before a user without a password, as in MLflow's own client", async () => {
  const config = RunConfig.parse({ ...relayConfig(), track: ["mlflow"] });
  for (const password of ["word", ""]) {
    const [tracker] = trackersOf(config, {
      MLFLOW_TRACKING_URI: url,
      MLFLOW_TRACKING_TOKEN: "token",
      MLFLOW_TRACKING_USERNAME: "ada",
      MLFLOW_TRACKING_PASSWORD: password,
    });
    await tracker?.send([line(1)], never);
  }
  const basic = `Basic ${Buffer.from("ada:word").toString("base64")}`;
  expect([...new Set(authorizations)]).toEqual([basic, "Bearer token"]);
});

test("a user and password in the address become the Authorization header, and appear in no message", async () => {
  const address = url.replace("//", "//ada:word%40home@");
  const config = RunConfig.parse({ ...relayConfig(), track: ["mlflow"] });
  const [tracker] = trackersOf(config, { MLFLOW_TRACKING_URI: address });
  await tracker?.send([line(1)], never);
  expect(new Set(authorizations)).toEqual(new Set([`Basic ${Buffer.from("ada:word@home").toString("base64")}`]));
  await new Promise((closed) => server.close(closed));
  const error: unknown = await tracker?.send([line(2)], never).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "tracker-unavailable", message: expect.not.stringMatching(/ada|word/) });
});

test("no message has a token that the server repeats", async () => {
  isDown = true;
  const config = RunConfig.parse({ ...relayConfig(), track: ["mlflow"] });
  const environment = { MLFLOW_TRACKING_URI: url, MLFLOW_TRACKING_TOKEN: "secret-token-7" };
  const [tracker] = trackersOf(config, environment);
  await expect(tracker?.send([line(1)], never)).rejects.toThrow(/with 503: down: \*\*\*$/);
});
