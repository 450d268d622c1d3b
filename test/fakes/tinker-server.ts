/**
 * @file A Tinker server in this process, on a local engine. Routes, futures, sequence numbers and refusals are SkyRL's
 * (test/fixtures/tinker-transcript.txt), and calls can be made to fail. Work runs one item at a time, as on SkyRL's engine.
 */
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { CheckpointFiles, EngineOptions, PolicyEngine } from "../../core/ports.ts";
import { Bodies, type Body, type Route } from "./tinker-bodies.ts";
import { type Call, type Fault, networkError, untilAborted } from "./tinker-faults.ts";
import { OperationFailed, SKYRL_JAX, TinkerModels, type TinkerRules } from "./tinker-models.ts";

export interface FakeTinkerOptions {
  readonly engine: PolicyEngine;
  /** The base checkpoint, weights included. */
  readonly files: CheckpointFiles;
  readonly options: EngineOptions;
  readonly rules?: TinkerRules;
  readonly baseModel?: string;
  readonly maxContextLength?: number;
  /** The longest that a poll is held open. */
  readonly pollMilliseconds?: number;
}

type Settled = { readonly done: unknown } | { readonly failed: string };

interface Future {
  readonly settled: Promise<Settled>;
  now: Settled | undefined;
}

/** A model that was ever requested, even if its creation failed, or if it was unloaded or lost in a restart. */
interface KnownModel {
  status: "created" | "unloading" | "unloaded";
  readonly rank: number;
}

type FaultOf = (call: Call, index: number) => Fault;

export class FakeTinker {
  readonly models: TinkerModels;
  readonly calls: Call[] = [];
  readonly app = new Hono().basePath("/api/v1");
  readonly #baseModel: string;
  readonly #maxContextLength: number | undefined;
  readonly #pollMilliseconds: number;
  readonly #rules: TinkerRules;
  readonly #futures: Future[] = [];
  /** Passes and optimizer steps, by model and sequence number. */
  readonly #numbered = new Map<string, { body: string; request_id: string }>();
  /** Names taken by checkpoints: `<model> <kind> <name>`. Also `<model> loaded`, if the model has loaded a checkpoint. */
  readonly #names = new Set<string>();
  readonly #known = new Map<string, KnownModel>();
  readonly #sessions = new Set<string>();
  #faultOf: FaultOf = () => undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #count = 0;

  constructor({ engine, files, options, rules = SKYRL_JAX, ...rest }: FakeTinkerOptions) {
    const { baseModel = "tiny-qwen3", maxContextLength, pollMilliseconds = 2000 } = rest;
    this.models = new TinkerModels(engine, files, options, rules);
    this.#baseModel = baseModel;
    this.#maxContextLength = maxContextLength;
    this.#pollMilliseconds = pollMilliseconds;
    this.#rules = rules;
    this.app.onError((error, context) => {
      if (error instanceof HTTPException) return context.json(JSON.parse(error.message), error.status);
      throw error;
    });
    this.#addSessionRoutes();
    this.#addModelRoutes();
    this.#addTrainingRoutes();
    this.#addCheckpointRoutes();
    this.#addSampleRoute();
    this.#addFutureRoute();
  }

  /** Makes later calls fail: `faultOf` gives the fault of each call, by the call and its index among all calls. */
  injectFaults(faultOf: FaultOf): void {
    this.#faultOf = faultOf;
  }

  /** As after kill -9 and a restart: checkpoints and sessions remain, models are gone, and queued work on them fails. */
  restart(): void {
    this.models.forgetModels();
  }

  /** An instance property, since clients call it unbound. */
  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const path = url.split("/api/v1/")[1] ?? "";
    const body = typeof init.body === "string" ? JSON.parse(init.body) : {};
    const call = { method: init.method ?? "GET", path, body, headers: new Headers(init.headers) };
    const fault = this.#faultOf(call, this.calls.push(call) - 1);
    init.signal?.throwIfAborted();
    if (fault instanceof Response) return fault;
    if (fault === "refused") throw networkError("ECONNREFUSED");
    if (fault === "hang") await untilAborted(init.signal ?? undefined);
    const response = await this.app.request(`/api/v1/${path}`, init);
    if (fault === "lost") throw networkError("ECONNRESET");
    return response;
  };

  #post<N extends Route>(name: N, respond: (body: Body<N>) => unknown): void {
    this.app.post(`/${name}`, async (context) => {
      const parsed = Bodies[name].safeParse(await context.req.json());
      if (parsed.success) return context.json(respond(parsed.data as Body<N>) as object);
      const detail = parsed.error.issues.map(({ path, message, code }) => ({
        type: code,
        loc: ["body", ...path],
        msg: message,
      }));
      return context.json({ detail }, 422);
    });
  }

  /** Queues work and returns the id of its future. */
  #future(work: () => Promise<unknown>): string {
    const settled: Promise<Settled> = this.#queue
      .then(work)
      .then((done) => ({ done }))
      .catch((error: unknown) => {
        if (error instanceof OperationFailed) return { failed: error.message };
        throw error;
      });
    this.#queue = settled;
    const future: Future = { settled, now: undefined };
    settled.then((now) => {
      future.now = now;
    });
    this.#futures.push(future);
    return String(this.#futures.length);
  }

  /**
   * Queues a pass or an optimizer step. A server that deduplicates answers a repeated sequence number with the earlier future if the body is
   * the same, even if the model is gone, and refuses it if the body differs. The numbers of saves and loads are ignored.
   */
  #once(call: { model_id: string; seq_id?: number | null | undefined }, work: () => Promise<unknown>) {
    const { model_id, seq_id } = call;
    const text = JSON.stringify(call);
    const key = `${model_id} ${seq_id}`;
    if (!this.#known.has(model_id)) refuse(404, "Model not found");
    const earlier = seq_id == null || !this.#rules.deduplicates ? undefined : this.#numbered.get(key);
    if (earlier && earlier.body !== text) refuse(409, "Training request sequence number was reused");
    const request_id = earlier?.request_id ?? this.#future(work);
    this.#numbered.set(key, { body: text, request_id });
    return pending(request_id);
  }

  #takeName(model: string, name: string, kind: string): void {
    const id = `${model} ${kind} ${name}`;
    if (!this.#known.has(model)) refuse(404, `Model '${model}' not found`);
    if (this.#names.has(id)) refuse(409, `Checkpoint '${name}' already exists for model '${model}'`);
    this.#names.add(id);
  }

  #addSessionRoutes(): void {
    const supported = {
      model_name: this.#baseModel,
      ...(this.#maxContextLength && { max_context_length: this.#maxContextLength }),
    };
    this.app.get("/get_server_capabilities", (context) => context.json({ supported_models: [supported] }));
    this.#post("create_session", () => {
      const session_id = `session_${++this.#count}`;
      this.#sessions.add(session_id);
      return { type: "create_session", info_message: null, warning_message: null, error_message: null, session_id };
    });
    this.#post("session_heartbeat", ({ session_id }) => {
      if (!this.#sessions.has(session_id)) refuse(404, "Session not found");
      return { type: "session_heartbeat" };
    });
  }

  #addModelRoutes(): void {
    const base_model = this.#baseModel;
    this.#post("create_model", ({ session_id, base_model: requested, lora_config }) => {
      if (!this.#sessions.has(session_id)) refuse(404, "Session not found");
      const model_id = `model_${++this.#count}`;
      this.#known.set(model_id, { status: "created", rank: lora_config.rank });
      const request_id = this.#future(async () => {
        await this.models.create(model_id);
        // Whatever the request names, the server trains its own base.
        return { model_id, base_model, lora_config: { ...lora_config, alpha: 32, train_unembed: false } };
      });
      return { model_id, base_model: requested, lora_config, status: "created", request_id };
    });
    this.#post("unload_model", ({ model_id }) => {
      const model = this.#known.get(model_id) ?? refuse(404, "Model not found");
      model.status = "unloading";
      const request_id = this.#future(async () => {
        await this.models.unload(model_id);
        model.status = "unloaded";
        return { model_id, status: "unloaded", type: "unload_model" };
      });
      return { request_id, model_id };
    });
    this.#post("get_info", ({ model_id }) => {
      const { status, rank } = this.#known.get(model_id) ?? refuse(404, "Model not found");
      return {
        model_id,
        status,
        model_data: { base_model, lora_config: { rank, seed: null }, model_name: base_model },
      };
    });
  }

  #addTrainingRoutes(): void {
    this.#post("forward", (body) =>
      this.#once(body, async () => passResult(await this.models.forward(body.model_id, body.forward_input))),
    );
    this.#post("forward_backward", (body) =>
      this.#once(body, async () =>
        passResult(await this.models.forwardBackward(body.model_id, body.forward_backward_input)),
      ),
    );
    this.#post("optim_step", (body) =>
      this.#once(body, async () => ({
        metrics: { "skyrl.ai/grad_norm": await this.models.optimizerStep(body.model_id, body.adam_params) },
      })),
    );
  }

  #addCheckpointRoutes(): void {
    this.#post("save_weights", ({ model_id, path: name }) => {
      this.#takeName(model_id, name, "weights");
      const path = `tinker://${model_id}/weights/${name}`;
      const save = () => this.models.save(model_id, "weights", path);
      return pending(this.#future(() => save().then(() => ({ path, type: "save_weights" }))));
    });
    this.#post("save_weights_for_sampler", ({ model_id, path: name }) => {
      this.#takeName(model_id, name, "sampler");
      const path = `tinker://${model_id}/${name}`;
      const result = { path, type: "save_weights_for_sampler", sampling_session_id: null };
      return pending(this.#future(() => this.models.save(model_id, "sampler", path).then(() => result)));
    });
    this.#post("load_weights", ({ model_id, seq_id, path }) => {
      const isUsed = [...this.#numbered.keys(), ...this.#names].some((key) => key.startsWith(`${model_id} `));
      if (isUsed) refuse(400, `LoadWeights is not permitted with seq_id ${seq_id}`);
      if (this.models.saved.get(path)?.kind !== "weights") refuse(404, `Checkpoint not found: ${path}`);
      this.#names.add(`${model_id} loaded`);
      return pending(this.#future(() => this.models.load(model_id, path).then(() => ({ type: "load_weights" }))));
    });
    this.app.delete("/training_runs/:model/checkpoints/:kind/:name", (context) => {
      const { model, kind, name } = context.req.param();
      const path = kind === "weights" ? `tinker://${model}/weights/${name}` : `tinker://${model}/${name}`;
      return this.models.saved.delete(path)
        ? context.body(null, 204)
        : context.json({ detail: `Checkpoint not found: ${model}/${name}` }, 404);
    });
  }

  #addSampleRoute(): void {
    this.#post("asample", ({ prompt, sampling_params, base_model, model_path }) => {
      if (model_path != null && this.models.saved.get(model_path)?.kind !== "sampler")
        refuse(404, `Checkpoint not found: ${model_path}`);
      const from = base_model == null ? { model_path: model_path ?? "" } : { base_model };
      const request_id = this.#future(async () => {
        if (base_model != null && base_model !== this.#baseModel) {
          const fault = `Engine is configured for '${this.#baseModel}' but request specified '${base_model}'`;
          throw new OperationFailed(fault);
        }
        const tokens = prompt.chunks.flatMap((chunk) => chunk.tokens);
        return { ...(await this.models.sample(from, tokens, sampling_params)), prompt_logprobs: null };
      });
      return pending(request_id);
    });
  }

  #addFutureRoute(): void {
    this.app.post("/retrieve_future", async (context) => {
      const { request_id } = await context.req.json();
      const future = this.#futures[Number(request_id) - 1];
      if (!future) return context.json({ detail: "Future not found" }, 404);
      const timeout = new Promise<void>((resolve) => setTimeout(resolve, this.#pollMilliseconds).unref());
      const settled = future.now ?? (await Promise.race([future.settled, timeout]));
      if (!settled) return context.json({ detail: "Timeout waiting for result" }, 408);
      return "failed" in settled ? context.json({ detail: settled.failed }, 400) : context.json(settled.done as object);
    });
  }
}

const pending = (request_id: string) => ({ future_id: request_id, status: "pending", request_id });

const passResult = (rows: number[][]) => ({
  loss_fn_output_type: "scalar",
  loss_fn_outputs: rows.map((data) => ({ logprobs: { data, dtype: "float32", shape: [data.length] } })),
  metrics: {},
});

function refuse(status: 400 | 404 | 409, detail: string): never {
  throw new HTTPException(status, { message: JSON.stringify({ detail }) });
}
