/**
 * @file A typed client of the Tinker API: training with the server's losses, and sampling, for models on a server. `../objective.ts` expresses any
 * loss over log-probs as weights of one of them.
 *
 *     client ── session (a heartbeat every 10 s, or the server unloads its models) ── model: passes, optimizer steps, saves, in order
 *        '───── samples, from the base model or from saved weights
 *
 * A model's calls, `unload` aside, have sequence numbers from 1, which serve as idempotency keys: a call whose response was lost is resent
 * under its number, and a server that deduplicates executes it once.
 *
 * SkyRL ignores the number of a save: a save whose response was lost has used up its name, so it is repeated under the next one.
 *
 * Another process can resume a model whose calls were journaled (`BeforeCall`): `resumeSession`, `resumeModel`, then the same calls under the
 * same numbers.
 */
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import { inOneLine } from "./http.ts";
import {
  type AdamParams,
  Capabilities,
  type Datum,
  Heartbeat,
  type LossFunction,
  ModelCreated,
  ModelInfo,
  ModelUnloaded,
  OptimizerResult,
  PassResult,
  type SampledModel,
  SampleResult,
  type SamplingParams,
  Saved,
  SessionCreated,
  type TinkerLora,
  WeightsLoaded,
} from "./messages.ts";
import { type Ticket, Transport, type TransportOptions } from "./transport.ts";

const HEARTBEAT_SECONDS = 10;
const SDK_VERSION = "mgrpo";
/** Maximum number of names tried for one save. */
const MAXIMUM_SAVE_NAMES = 5;

/** Runs before each numbered call of a model is sent. The call waits for it and is not sent if it rejects. */
export type BeforeCall = (seqId: number, path: string, body: object) => Promise<void>;

/**
 * One server. Sampling needs no session; training does. A call that fails rejects with `endpoint-unavailable`, retryable, if its own retries or
 * its time are exhausted or the server reports a failure that is not the caller's. If the server refuses the call or its response is invalid, it
 * rejects with `endpoint-refused`; the status of a response that refuses is in the error's `evidence`. A sample whose signal aborts rejects with
 * the signal's reason or an AbortError.
 */
export interface TinkerClient {
  capabilities(): Promise<Capabilities>;
  openSession(): Promise<TinkerSession>;
  /** Resumes the heartbeat of a session that another process opened. Rejects (404) if the server does not know it. */
  resumeSession(id: string): Promise<TinkerSession>;
  /** One sample that continues `prompt`, a list of token ids. */
  sample(
    model: SampledModel,
    prompt: readonly number[],
    params: SamplingParams,
    signal?: AbortSignal,
  ): Promise<SampleResult>;
  /** Deletes saved weights; succeeds if they do not exist. */
  deleteWeights(path: string): Promise<void>;
}

/** Owns models. The server keeps them as long as the session sends a heartbeat every 10 s. The heartbeat does not keep this process alive. */
export interface TinkerSession {
  readonly id: string;
  /** Creates an adapter on the base model. Rejects with `endpoint-refused` if the server creates one with a different base or rank. */
  createModel(baseModel: string, lora: TinkerLora, before?: BeforeCall): Promise<TinkerModel>;
  /** A model that another process created in this session; `next` is the number of its next call. Undefined if it was unloaded. */
  resumeModel(id: string, next: number, before?: BeforeCall): Promise<TinkerModel | undefined>;
  /** Stops the heartbeat; the server then unloads the remaining models. */
  close(): void;
}

/** One adapter with its gradient and optimizer state. Calls are executed in order. */
export interface TinkerModel {
  readonly id: string;
  /** Log-probs of the targets, [N] for each datum, in order. Each batch is one request. */
  forward(batches: readonly (readonly Datum[])[], loss: LossFunction): Promise<number[][]>;
  /** As `forward`, and adds to the gradient. */
  forwardBackward(batches: readonly (readonly Datum[])[], loss: LossFunction): Promise<number[][]>;
  /** One AdamW step with the gradient; resets the gradient. */
  optimizerStep(params: AdamParams): Promise<OptimizerResult>;
  /** Saves weights and optimizer state for training; returns their path. */
  saveWeights(): Promise<string>;
  /** Saves weights for sampling; returns their path. */
  saveForSampler(): Promise<string>;
  /** Allowed only as a model's first call. */
  loadWeights(path: string): Promise<void>;
  /** Whether a call repeated under the same number returns the first result, even after a later call. */
  remembersCalls(batch: readonly Datum[]): Promise<boolean>;
  unload(): Promise<void>;
}

/**
 * Sends nothing yet. The key is sent only over https or to this machine. Throws `TypeError` if `baseUrl` is not a URL; calls reject with
 * `config-invalid` if the key has a character that a header cannot carry.
 */
export function openTinkerClient(options: TransportOptions): TinkerClient {
  const transport = new Transport(options);
  return {
    capabilities: () => transport.call("get_server_capabilities", undefined, Capabilities),
    openSession: () => openSession(transport),
    async resumeSession(id) {
      await heartbeat(transport, id);
      return keepSession(transport, id);
    },
    sample: (model, prompt, params, signal) =>
      transport.work(
        "asample",
        {
          ...model,
          num_samples: 1,
          prompt: { chunks: [{ type: "encoded_text", tokens: prompt }] },
          sampling_params: params,
          type: "sample",
        },
        SampleResult,
        signal,
      ),
    async deleteWeights(path) {
      try {
        await transport.delete(checkpointPathOf(path));
      } catch (error) {
        if (!isMgrpoError(error, "endpoint-refused") || error.evidence !== 404) throw error;
      }
    },
  };
}

async function openSession(transport: Transport): Promise<TinkerSession> {
  const created = await transport.call(
    "create_session",
    { tags: [], user_metadata: null, sdk_version: SDK_VERSION, type: "create_session" },
    SessionCreated,
  );
  if (created.error_message)
    throw new MgrpoError("endpoint-refused", `create_session: ${inOneLine(created.error_message)}`);
  return keepSession(transport, created.session_id);
}

const heartbeat = (transport: Transport, session_id: string) =>
  transport.call("session_heartbeat", { session_id, type: "session_heartbeat" }, Heartbeat);

function keepSession(transport: Transport, session_id: string): TinkerSession {
  // A lost heartbeat is harmless; if every heartbeat is lost, the next call fails.
  const timer = setInterval(() => heartbeat(transport, session_id).catch(() => {}), HEARTBEAT_SECONDS * 1000).unref();
  let models = 0;
  return {
    id: session_id,
    async createModel(baseModel, lora, before) {
      const lora_config = { ...lora, train_attn: true, train_mlp: true, train_unembed: true };
      const body = { session_id, model_seq_id: models++, base_model: baseModel, lora_config, type: "create_model" };
      const created = await transport.work("create_model", body, ModelCreated);
      const [base, rank] = [created.base_model ?? baseModel, created.lora_config?.rank ?? lora.rank];
      if (base !== baseModel || rank !== lora.rank) {
        throw new MgrpoError(
          "endpoint-refused",
          `create_model: asked for rank ${lora.rank} on '${baseModel}', but the server created rank ${rank} on '${base}'`,
        );
      }
      return new NumberedModel(transport, created.model_id, 1, before);
    },
    async resumeModel(model_id, next, before) {
      const { status } = await transport.call("get_info", { model_id, type: "get_info" }, ModelInfo);
      return status?.startsWith("unload") ? undefined : new NumberedModel(transport, model_id, next, before);
    },
    close: () => clearInterval(timer),
  };
}

class NumberedModel implements TinkerModel {
  readonly id: string;
  readonly #transport: Transport;
  readonly #before: BeforeCall | undefined;
  #next: number;

  constructor(transport: Transport, id: string, next: number, before: BeforeCall | undefined) {
    this.id = id;
    this.#transport = transport;
    this.#next = next;
    this.#before = before;
  }

  forward(batches: readonly (readonly Datum[])[], loss: LossFunction): Promise<number[][]> {
    return this.#pass("forward", "forward_input", batches, loss);
  }

  forwardBackward(batches: readonly (readonly Datum[])[], loss: LossFunction): Promise<number[][]> {
    return this.#pass("forward_backward", "forward_backward_input", batches, loss);
  }

  async optimizerStep(adam_params: AdamParams): Promise<OptimizerResult> {
    const body = await this.#numberedBody("optim_step", { adam_params, type: "optim_step" });
    return this.#transport.work("optim_step", body, OptimizerResult);
  }

  saveWeights(): Promise<string> {
    return this.#save("save_weights", "weights");
  }

  saveForSampler(): Promise<string> {
    return this.#save("save_weights_for_sampler", "sampler");
  }

  async loadWeights(path: string): Promise<void> {
    const body = await this.#numberedBody("load_weights", { path, optimizer: true, type: "load_weights" });
    await this.#transport.work("load_weights", body, WeightsLoaded);
  }

  async remembersCalls(data: readonly Datum[]): Promise<boolean> {
    const newCall = () => this.#numberedBody("forward", { forward_input: { data, loss_fn: "cross_entropy" } });
    const send = async (body: object) => {
      const ticket = await this.#transport.submit("forward", body);
      await this.#transport.result(ticket, PassResult);
      return ticket.requestId;
    };
    const first = await newCall();
    const requestId = await send(first);
    await send(await newCall());
    try {
      return (await send(first)) === requestId;
    } catch (error) {
      if (isMgrpoError(error, "endpoint-refused")) return false;
      throw error;
    }
  }

  async unload(): Promise<void> {
    await this.#transport.work("unload_model", { model_id: this.id, type: "unload_model" }, ModelUnloaded);
  }

  /** The body of the next call; resolves once the call may be sent. */
  async #numberedBody(path: string, content: object): Promise<object> {
    const seq_id = this.#next++;
    const body = { model_id: this.id, seq_id, ...content };
    await this.#before?.(seq_id, path, body);
    return body;
  }

  async #pass(
    path: string,
    field: string,
    batches: readonly (readonly Datum[])[],
    loss_fn: LossFunction,
  ): Promise<number[][]> {
    const submitted: { ticket: Ticket; count: number }[] = [];
    for (const data of batches) {
      const body = await this.#numberedBody(path, { [field]: { data, loss_fn } });
      submitted.push({ ticket: await this.#transport.submit(path, body), count: data.length });
    }
    const results = await Promise.all(
      submitted.map(async ({ ticket, count }) => {
        const { loss_fn_outputs: outputs } = await this.#transport.result(ticket, PassResult);
        if (outputs.length === count) return outputs.map(({ logprobs }) => logprobs.data);
        throw new MgrpoError("endpoint-refused", `${path}: ${outputs.length} outputs for ${count} sequences`);
      }),
    );
    return results.flat();
  }

  /** Tries the next name when the current one was used by a save whose response was lost (409). */
  async #save(path: string, kind: string): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      const body = await this.#numberedBody(path, { path: `${kind}-${this.#next}`, type: path });
      try {
        return (await this.#transport.work(path, body, Saved)).path;
      } catch (error) {
        const isNameTaken = isMgrpoError(error, "endpoint-refused") && error.evidence === 409;
        if (attempt === MAXIMUM_SAVE_NAMES || !isNameTaken) throw error;
      }
    }
  }
}

/**
 * Takes `tinker://<model>/weights/<name>`, `tinker://<model>/sampler_weights/<name>`, or SkyRL's
 * `tinker://<model>/<name>` for the latter.
 */
function checkpointPathOf(path: string): string {
  const [model = "", ...rest] = path.replace("tinker://", "").split("/");
  const [kind, name] = rest.length === 1 ? ["sampler_weights", rest[0]] : rest;
  return `training_runs/${model}/checkpoints/${kind}/${name}`;
}
