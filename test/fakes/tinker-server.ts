/**
 * @file A Tinker server in this process, on a local engine: routes, futures, numbering and refusals as SkyRL answered them (the
 * transcript in test/fixtures), and what can go wrong on the way. Work is done one after the other, as by SkyRL's engine.
 */
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import * as z from "zod";
import type { CheckpointFiles, EngineOptions, PolicyEngine } from "../../core/ports.ts";
import { AdamParams, ModelInput, PassInput, SamplingParams, TinkerLora } from "../../engine/tinker/client/messages.ts";
import { OperationFailed, SKYRL_JAX, TinkerModels, type TinkerRules } from "./tinker-models.ts";

export interface FakeTinkerOptions {
  readonly engine: PolicyEngine;
  /** With the weights. */
  readonly files: CheckpointFiles;
  readonly options: EngineOptions;
  readonly rules?: TinkerRules;
  readonly baseModel?: string;
  readonly maxContextLength?: number;
  /** Milliseconds that a poll is held open. */
  readonly pollMilliseconds?: number;
}

/**
 * What becomes of a call instead: an answer of a proxy; `hang`: none ever; `refused`: nobody listens; `lost`: it is done, and the answer
 * never comes; `dead`: the server dies, and the call with it.
 */
export type Fault = Response | "hang" | "refused" | "lost" | undefined;

export interface Call {
  readonly method: string;
  /** Below /api/v1. */
  readonly path: string;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

const NAME = z
  .string()
  .regex(/^[a-zA-Z0-9_-]+$/)
  .max(255);
const Numbered = { model_id: z.string(), seq_id: z.int().nullish() };
const Bodies = {
  create_session: z.object({ tags: z.array(z.string()), sdk_version: z.string() }),
  session_heartbeat: z.object({ session_id: z.string() }),
  create_model: z.object({ session_id: z.string(), base_model: z.string(), lora_config: TinkerLora }),
  unload_model: z.object({ model_id: z.string() }),
  get_info: z.object({ model_id: z.string() }),
  forward: z.object({ ...Numbered, forward_input: PassInput }),
  forward_backward: z.object({ ...Numbered, forward_backward_input: PassInput }),
  optim_step: z.object({ ...Numbered, adam_params: AdamParams }),
  save_weights: z.object({ ...Numbered, path: NAME }),
  save_weights_for_sampler: z.object({ ...Numbered, path: NAME }),
  load_weights: z.object({ ...Numbered, path: z.string(), optimizer: z.boolean() }),
  asample: z
    .object({
      prompt: ModelInput,
      num_samples: z.int().default(1),
      sampling_params: SamplingParams.extend({
        temperature: z.number().default(1),
        top_k: z.int().default(-1),
        top_p: z.number().default(1),
        // Texts, too; they never come up in tokens.
        stop: z.array(z.union([z.int(), z.string().transform(() => -1)])).optional(),
      }),
      base_model: z.string().nullish(),
      model_path: z.string().nullish(),
    })
    .refine(({ base_model, model_path }) => (base_model == null) !== (model_path == null), {
      message:
        "Value error, When 'sampling_session_id' is not provided, exactly one of 'base_model' or 'model_path' must be provided",
    }),
};

type Settled = { readonly done: unknown } | { readonly failed: string };

export type FakeTinker = ReturnType<typeof fakeTinker>;

export function fakeTinker({ engine, files, options, rules = SKYRL_JAX, ...rest }: FakeTinkerOptions) {
  const { baseModel = "tiny-qwen3", maxContextLength, pollMilliseconds = 2000 } = rest;
  const models = new TinkerModels(engine, files, options, rules);
  const calls: Call[] = [];
  const futures: { settled: Promise<Settled>; now: Settled | undefined }[] = [];
  const numbered = new Map<string, { body: string; request_id: string }>();
  const names = new Set<string>();
  /** Also of models that were unloaded, or died with the server. */
  const known = new Map<string, { status: "created" | "unloading" | "unloaded"; rank: number }>();
  const sessions = new Set<string>();
  let fault: (call: Call, index: number) => Fault = () => undefined;
  let engineQueue: Promise<unknown> = Promise.resolve();
  let count = 0;

  function future(work: () => Promise<unknown>): string {
    const settled: Promise<Settled> = engineQueue
      .then(work)
      .then((done) => ({ done }))
      .catch((error: unknown) => {
        if (error instanceof OperationFailed) return { failed: error.message };
        throw error;
      });
    engineQueue = settled;
    const entry = { settled, now: undefined as Settled | undefined };
    settled.then((now) => {
      entry.now = now;
    });
    futures.push(entry);
    return String(futures.length);
  }
  const pending = (request_id: string) => ({ future_id: request_id, status: "pending", request_id });

  /** The same number with the same body is the same work, whatever became of its model; saves and loads are not numbered. */
  function once(
    { model_id, seq_id }: { model_id: string; seq_id?: number | null | undefined },
    body: unknown,
    work: () => Promise<unknown>,
  ) {
    const text = JSON.stringify(body);
    const key = `${model_id} ${seq_id}`;
    if (!known.has(model_id)) refuse(404, "Model not found");
    const earlier = seq_id == null || !rules.remembers ? undefined : numbered.get(key);
    if (earlier && earlier.body !== text) refuse(409, "Training request sequence number was reused");
    const request_id = earlier?.request_id ?? future(work);
    numbered.set(key, { body: text, request_id });
    return pending(request_id);
  }

  function checkpoint(model: string, name: string, kind: string) {
    const id = `${model} ${kind} ${name}`;
    if (!known.has(model)) refuse(404, `Model '${model}' not found`);
    if (names.has(id)) refuse(409, `Checkpoint '${name}' already exists for model '${model}'`);
    names.add(id);
  }

  const app = new Hono().basePath("/api/v1");
  app.onError((error, context) => {
    if (error instanceof HTTPException) return context.json(JSON.parse(error.message), error.status);
    throw error;
  });
  app.get("/get_server_capabilities", (context) =>
    context.json({
      supported_models: [{ model_name: baseModel, ...(maxContextLength && { max_context_length: maxContextLength }) }],
    }),
  );
  const post = <N extends keyof typeof Bodies>(name: N, answer: (body: z.infer<(typeof Bodies)[N]>) => unknown) =>
    app.post(`/${name}`, async (context) => {
      const parsed = Bodies[name].safeParse(await context.req.json());
      if (parsed.success) return context.json(answer(parsed.data as z.infer<(typeof Bodies)[N]>) as object);
      const detail = parsed.error.issues.map(({ path, message, code }) => ({
        type: code,
        loc: ["body", ...path],
        msg: message,
      }));
      return context.json({ detail }, 422);
    });

  post("create_session", () => {
    const session_id = `session_${++count}`;
    sessions.add(session_id);
    return { type: "create_session", info_message: null, warning_message: null, error_message: null, session_id };
  });
  post("session_heartbeat", ({ session_id }) => {
    if (!sessions.has(session_id)) refuse(404, "Session not found");
    return { type: "session_heartbeat" };
  });
  post("create_model", ({ session_id, base_model, lora_config }) => {
    if (!sessions.has(session_id)) refuse(404, "Session not found");
    const model_id = `model_${++count}`;
    known.set(model_id, { status: "created", rank: lora_config.rank });
    const request_id = future(async () => {
      await models.create(model_id);
      // Whatever was asked for, its own base is trained.
      return { model_id, base_model: baseModel, lora_config: { ...lora_config, alpha: 32, train_unembed: false } };
    });
    return { model_id, base_model, lora_config, status: "created", request_id };
  });
  post("unload_model", ({ model_id }) => {
    const model = known.get(model_id) ?? refuse(404, "Model not found");
    model.status = "unloading";
    const work = async () => {
      await models.unload(model_id);
      model.status = "unloaded";
      return { model_id, status: "unloaded", type: "unload_model" };
    };
    return { request_id: future(work), model_id };
  });
  post("get_info", ({ model_id }) => {
    const { status, rank } = known.get(model_id) ?? refuse(404, "Model not found");
    const lora_config = { rank, seed: null };
    return { model_id, status, model_data: { base_model: baseModel, lora_config, model_name: baseModel } };
  });
  const pass = (rows: number[][]) => ({
    loss_fn_output_type: "scalar",
    loss_fn_outputs: rows.map((data) => ({ logprobs: { data, dtype: "float32", shape: [data.length] } })),
    metrics: {},
  });
  post("forward", (body) =>
    once(body, body, async () => pass(await models.forward(body.model_id, body.forward_input))),
  );
  post("forward_backward", (body) =>
    once(body, body, async () => pass(await models.forwardBackward(body.model_id, body.forward_backward_input))),
  );
  post("optim_step", (body) =>
    once(body, body, async () => ({
      metrics: { "skyrl.ai/grad_norm": await models.optimizerStep(body.model_id, body.adam_params) },
    })),
  );
  post("save_weights", ({ model_id, path: name }) => {
    checkpoint(model_id, name, "weights");
    const path = `tinker://${model_id}/weights/${name}`;
    return pending(future(() => models.save(model_id, "weights", path).then(() => ({ path, type: "save_weights" }))));
  });
  post("save_weights_for_sampler", ({ model_id, path: name }) => {
    checkpoint(model_id, name, "sampler");
    const path = `tinker://${model_id}/${name}`;
    const result = { path, type: "save_weights_for_sampler", sampling_session_id: null };
    return pending(future(() => models.save(model_id, "sampler", path).then(() => result)));
  });
  post("load_weights", ({ model_id, seq_id, path }) => {
    const used = [...numbered.keys(), ...names].some((key) => key.startsWith(`${model_id} `));
    if (used) refuse(400, `LoadWeights is not permitted with seq_id ${seq_id}`);
    if (models.saved.get(path)?.kind !== "weights") refuse(404, `Checkpoint not found: ${path}`);
    names.add(`${model_id} loaded`);
    return pending(future(() => models.load(model_id, path).then(() => ({ type: "load_weights" }))));
  });
  post("asample", ({ prompt, sampling_params, base_model, model_path }) => {
    if (model_path != null && models.saved.get(model_path)?.kind !== "sampler")
      refuse(404, `Checkpoint not found: ${model_path}`);
    const from = base_model == null ? { model_path: model_path ?? "" } : { base_model };
    return pending(
      future(async () => {
        if (base_model != null && base_model !== baseModel)
          throw new OperationFailed(`Engine is configured for '${baseModel}' but request specified '${base_model}'`);
        const tokens = prompt.chunks.flatMap((chunk) => chunk.tokens);
        return { ...(await models.sample(from, tokens, sampling_params)), prompt_logprobs: null };
      }),
    );
  });
  app.post("/retrieve_future", async (context) => {
    const { request_id } = await context.req.json();
    const entry = futures[Number(request_id) - 1];
    if (!entry) return context.json({ detail: "Future not found" }, 404);
    const timeout = new Promise<void>((resolve) => setTimeout(resolve, pollMilliseconds).unref());
    const settled = entry.now ?? (await Promise.race([entry.settled, timeout]));
    if (!settled) return context.json({ detail: "Timeout waiting for result" }, 408);
    return "failed" in settled ? context.json({ detail: settled.failed }, 400) : context.json(settled.done as object);
  });
  app.delete("/training_runs/:model/checkpoints/:kind/:name", (context) => {
    const { model, kind, name } = context.req.param();
    const path = kind === "weights" ? `tinker://${model}/weights/${name}` : `tinker://${model}/${name}`;
    return models.saved.delete(path)
      ? context.body(null, 204)
      : context.json({ detail: `Checkpoint not found: ${model}/${name}` }, 404);
  });

  return {
    models,
    calls,
    /** Decides what becomes of the calls from now on, by call and its number. */
    spoil(next: typeof fault) {
      fault = next;
    },
    /** Killed with -9 and started again: checkpoints and sessions are there, models are not, and what was queued fails. */
    restart: () => models.forgetModels(),
    async fetch(url: string, init: RequestInit): Promise<Response> {
      const path = url.split("/api/v1/")[1] ?? "";
      const body = typeof init.body === "string" ? JSON.parse(init.body) : {};
      const call = { method: init.method ?? "GET", path, body, headers: new Headers(init.headers) };
      const becomes = fault(call, calls.push(call) - 1);
      init.signal?.throwIfAborted();
      if (becomes instanceof Response) return becomes;
      if (becomes === "refused") throw networkError("ECONNREFUSED");
      if (becomes === "hang") await untilAborted(init.signal ?? undefined);
      const response = await app.request(`/api/v1/${path}`, init);
      if (becomes === "lost") throw networkError("ECONNRESET");
      return response;
    },
  };
}

function refuse(status: 400 | 404 | 409, detail: string): never {
  throw new HTTPException(status, { message: JSON.stringify({ detail }) });
}

const networkError = (code: string) =>
  new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });

function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
