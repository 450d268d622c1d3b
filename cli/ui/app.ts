/**
 * @file The dashboard's HTTP interface. It only reads. Every path that is neither an API nor a file gets the page, which draws the view that
 * the path names.
 *
 *     GET /api/runs                                             RunsView
 *     GET /api/events                                           server-sent events `runs`: a RunsView whenever it changes
 *     GET /api/compare?runs=<run>,<run>                         CompareView
 *     GET /api/runs/<run>?from=<step>                           RunView, with the summaries of the steps from there on
 *     GET /api/runs/<run>/events                                server-sent events `pulse`: a RunPulse whenever it changes
 *     GET /api/runs/<run>/steps/<step>?sort&page                StepView
 *     GET /api/runs/<run>/steps/<step>/timeline                 TimelineView
 *     GET /api/runs/<run>/steps/<step>/search?text&filter&from  SearchView
 *     GET /api/runs/<run>/steps/<step>/<group>                  GroupView
 *     GET /api/runs/<run>/steps/<step>/<group>/<rollout>        RolloutView
 *     GET …/<rollout>/tokens?trajectory=<id>                    TokenView
 *     GET /api/runs/<run>/evaluations                           EvaluationsView
 *     GET /api/runs/<run>/cases                                 CasesView
 *     GET /api/runs/<run>/evaluations/<job>?question=<id>       AnswersView
 *     Both streams send a Failure as `failure`, and a comment as a heartbeat. A page that reads slowly gets only the newest event.
 *     404 no such thing · 503 an outage that may pass · 422 any other error, such as a damaged record · 500 a bug: each with a Failure
 */
import { type Context, Hono } from "hono";
import { compress } from "hono/compress";
import { type SSEMessage, streamSSE } from "hono/streaming";
import { RunName } from "../../core/contracts/names.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { groupOrder } from "../../ui/group-order.ts";
import { type Failure, RolloutFilter } from "../../ui/views.ts";
import { notesOf } from "../notes.ts";
import { openSource, type Source } from "../show/source.ts";
import { type Access, requireKey, strictHeaders } from "./access.ts";
import { compareView } from "./compare.ts";
import { answersView, casesView, evaluationsView } from "./evaluations.ts";
import { EventSender } from "./event-sender.ts";
import { pageFile, pageStyle } from "./page-files.ts";
import { runsView, runView } from "./run-view.ts";
import { searchStep } from "./search.ts";
import { groupView, rolloutView, stepView } from "./step.ts";
import { timelineView } from "./timeline.ts";
import { tokenView } from "./tokens.ts";
import { isTransient, type Listener } from "./watch.ts";
import type { RunWatcher } from "./watch-runs.ts";

export interface DashboardOptions extends Access {
  /** Host names at which the server is reached. */
  readonly hosts: readonly string[];
  readonly watcher: RunWatcher;
}

export function dashboardApp({ hosts, watcher, ...access }: DashboardOptions): Hono {
  const app = new Hono();
  app.use(strictHeaders, requireKey(access, hosts), compress());
  app.get("/api/runs", async (context) => context.json(await runsView()));
  app.get("/api/compare", async (context) => {
    const names = (context.req.query("runs") ?? "").split(",").filter(Boolean).map(runName);
    return context.json(await compareView(await Promise.all(names.map(openSource))));
  });
  app.get("/api/runs/:run", async (context) => {
    const source = await sourceOf(context);
    // The page asks for steps next. They need the recipe, whose import takes longer than any view. If it fails, their requests report it.
    notesOf(source.config.recipe).catch(() => undefined);
    const view = await runView(source);
    const from = queryNumber(context, "from");
    return context.json({ ...view, perStep: view.perStep.filter(({ step }) => step >= from) });
  });
  app.get("/api/events", (context) => events(context, "runs", (listener) => watcher.subscribeList(listener)));
  app.get("/api/runs/:run/events", (context) => {
    const run = nameOf(context);
    return events(context, "pulse", (listener) => watcher.subscribe(run, listener));
  });
  addSteps(app);
  addEvaluations(app);
  app.get("/api/*", () => {
    throw new MgrpoError("not-found", "the dashboard has no such view");
  });
  addFiles(app);
  app.onError((error, context) => {
    if (isMgrpoError(error)) return context.json(failureOf(error), statusOf(error));
    console.error(error);
    return context.json(BUG, 500);
  });
  return app;
}

/** A dashboard that a run or a served cloud starts has no terminal of its own. */
const BUG: Failure = {
  code: "unexpected",
  message:
    "a bug in the dashboard: run `mgrpo ui` in a terminal and open this page through the link that it prints; the terminal then shows the error",
};

const failureOf = ({ code, message }: MgrpoError): Failure => ({ code, message });

function statusOf(error: MgrpoError): 404 | 422 | 503 {
  if (error.code === "not-found") return 404;
  return isTransient(error) ? 503 : 422;
}

function addSteps(app: Hono): void {
  const stepPath = "/api/runs/:run/steps/:step{[0-9]+}";
  app.get(stepPath, async (context) => {
    const source = await sourceOf(context);
    const wanted = { order: groupOrder(context.req.query("sort")), page: queryNumber(context, "page") };
    const step = pathNumber(context, "step");
    return context.json(await stepView(source, step, wanted, await notesOf(source.config.recipe)));
  });
  app.get(`${stepPath}/timeline`, async (context) =>
    context.json(await timelineView(await sourceOf(context), pathNumber(context, "step"))),
  );
  app.get(`${stepPath}/search`, async (context) => {
    const source = await sourceOf(context);
    const filter = RolloutFilter.safeParse(context.req.query("filter") ?? "any").data ?? "any";
    const search = { text: context.req.query("text") ?? "", filter, from: queryNumber(context, "from") };
    const step = pathNumber(context, "step");
    const noteOf = await notesOf(source.config.recipe);
    return context.json(await source.read((store) => searchStep(store, source.config, step, search, noteOf)));
  });
  app.get(`${stepPath}/:group{[0-9]+}`, async (context) => {
    const source = await sourceOf(context);
    const [step, group] = [pathNumber(context, "step"), pathNumber(context, "group")];
    return context.json(await groupView(source, step, group, await notesOf(source.config.recipe)));
  });
  const rolloutPath = `${stepPath}/:group{[0-9]+}/:rollout{[0-9]+}`;
  app.get(rolloutPath, async (context) => {
    const source = await sourceOf(context);
    const [step, group] = [pathNumber(context, "step"), pathNumber(context, "group")];
    return context.json(
      await rolloutView(source, step, group, pathNumber(context, "rollout"), await notesOf(source.config.recipe)),
    );
  });
  app.get(`${rolloutPath}/tokens`, async (context) => {
    const [step, group] = [pathNumber(context, "step"), pathNumber(context, "group")];
    const address = { step, group, rollout: pathNumber(context, "rollout") };
    const trajectory = context.req.query("trajectory") ?? "main";
    return context.json(await tokenView(await sourceOf(context), { ...address, trajectory }));
  });
}

function addEvaluations(app: Hono): void {
  app.get("/api/runs/:run/evaluations", async (context) =>
    context.json(await evaluationsView(await sourceOf(context))),
  );
  app.get("/api/runs/:run/cases", async (context) => context.json(await casesView(await sourceOf(context))));
  app.get("/api/runs/:run/evaluations/:job", async (context) => {
    const source = await sourceOf(context);
    const question = context.req.query("question") ?? "";
    return context.json(
      await answersView(source, context.req.param("job"), question, await notesOf(source.config.recipe)),
    );
  });
}

/** The page and what it loads, all from this server. */
function addFiles(app: Hono): void {
  app.get("/main.js", async (context) =>
    context.body(await pageFile("main.js"), 200, { "content-type": "text/javascript; charset=utf-8" }),
  );
  app.get("/style.css", async (context) =>
    context.body(await pageStyle(), 200, { "content-type": "text/css; charset=utf-8" }),
  );
  app.get("*", async (context) => context.html(await pageFile("index.html")));
}

const sourceOf = async (context: Context): Promise<Source> => openSource(nameOf(context));
const nameOf = (context: Context): string => runName(context.req.param("run") ?? "");

function runName(name: string): string {
  const run = RunName.safeParse(name).data;
  if (run === undefined) throw new MgrpoError("not-found", "the URL has an invalid run name");
  return run;
}

/** A query parameter that is an index; 0 if it is absent or invalid. */
const queryNumber = (context: Context, name: string): number =>
  Math.max(0, Math.floor(Number(context.req.query(name) ?? 0)) || 0);

const pathNumber = (context: Context, name: string): number => Number(context.req.param(name));

/** A proxy ends a stream that is silent for its read timeout, which is 60 s by default in nginx. */
const HEARTBEAT_SECONDS = 25;

function events<View>(context: Context, event: string, subscribe: (listener: Listener<View>) => () => void): Response {
  // nginx would hold events back until they fill its buffer.
  context.header("X-Accel-Buffering", "no");
  // Nobody reads the body of a response to HEAD, so its stream would never end.
  if (context.req.method === "HEAD") return context.body(null);
  return streamSSE(context, async (stream) => {
    const sender = new EventSender<SSEMessage>((message) => stream.writeSSE(message));
    const send = (name: string, data: unknown) => sender.send({ event: name, data: JSON.stringify(data) });
    const unsubscribe = subscribe({ show: (view) => send(event, view), fail: (failure) => send("failure", failure) });
    let isBeating = false;
    const beat = async () => {
      if (isBeating || sender.isWriting) return;
      isBeating = true;
      await stream.write(": heartbeat\n\n");
      isBeating = false;
    };
    const heartbeat = setInterval(beat, 1000 * HEARTBEAT_SECONDS).unref();
    await new Promise<void>((resolve) => stream.onAbort(resolve));
    clearInterval(heartbeat);
    unsubscribe();
  });
}
