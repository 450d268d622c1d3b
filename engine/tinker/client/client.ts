/**
 * @file A client of the Tinker API: training with one's own loss, and sampling, on models that live on a server.
 *
 *     client ── session (beats every 10 s, or the server unloads its models) ── model: passes, optimizer steps, saves, in order
 *        '───── samples, by base model or by saved weights
 *
 * A model's calls are numbered from 1 in the order they are made, so that one whose answer was lost is sent again and done once. SkyRL
 * does not number saves: one whose answer was lost has taken its name, and is made again under the next.
 *
 * A process that wrote its calls down (`BeforeCall`) can be gone on from by another: `resume`, then the same calls under the same numbers.
 */
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import {
  type AdamParams,
  Capabilities,
  type Datum,
  Heartbeat,
  Loaded,
  type LossFunction,
  ModelCreated,
  ModelInfo,
  ModelSubmitted,
  ModelUnloaded,
  OptimizerResult,
  PassResult,
  type SampledModel,
  SampleResult,
  type SamplingParams,
  Saved,
  SessionCreated,
  type TinkerLora,
} from "./messages.ts";
import { openTransport, type Ticket, type Transport, type TransportOptions } from "./transport.ts";

const BEAT_SECONDS = 10;
const SDK_VERSION = "mgrpo";
/** Names tried for one save. */
const SAVE_NAMES = 5;

/** Told of each numbered call of a model before it is sent. The call waits for it, and is not made if it rejects. */
export type BeforeCall = (seqId: number, path: string, body: object) => Promise<void>;

export interface TinkerClient {
  capabilities(): Promise<Capabilities>;
  openSession(): Promise<TinkerSession>;
  /** A session that another process opened, beating again. Refused (404) when the server does not know it. */
  resumeSession(id: string): Promise<TinkerSession>;
  sample(
    model: SampledModel,
    prompt: readonly number[],
    params: SamplingParams,
    signal?: AbortSignal,
  ): Promise<SampleResult>;
  /** Deletes saved weights; those that are not there are fine. */
  deleteWeights(path: string): Promise<void>;
}

export interface TinkerSession {
  readonly id: string;
  /** A fresh adapter on the base model. Refused when the server made one of another base or rank. */
  createModel(baseModel: string, lora: TinkerLora, before?: BeforeCall): Promise<TinkerModel>;
  /** A model of this session that another process made; `next`: the number of its next call. Undefined: it was unloaded. */
  resumeModel(id: string, next: number, before?: BeforeCall): Promise<TinkerModel | undefined>;
  /** Stops the beat: the server unloads what is left. */
  close(): void;
}

/** One adapter with its gradient and optimizer. Calls are done in the order they are made. */
export interface TinkerModel {
  readonly id: string;
  /** Log-probs of every datum's targets, batch after batch. */
  forward(batches: readonly (readonly Datum[])[], loss: LossFunction): Promise<number[][]>;
  /** The same, and adds to the gradient. */
  forwardBackward(batches: readonly (readonly Datum[])[], loss: LossFunction): Promise<number[][]>;
  /** AdamW on the gradient, which is zero afterwards. */
  optimizerStep(params: AdamParams): Promise<OptimizerResult>;
  /** Weights and optimizer, to train on from; their path. */
  saveWeights(): Promise<string>;
  /** Weights to sample from; their path. */
  saveForSampler(): Promise<string>;
  /** Only as a model's first call. */
  loadWeights(path: string): Promise<void>;
  /** Whether a pass that is sent again under its number, after it and a later one are done, is known for the one that is done. */
  remembersCalls(batch: readonly Datum[]): Promise<boolean>;
  unload(): Promise<void>;
}

export function openTinkerClient(options: TransportOptions): TinkerClient {
  const transport = openTransport(options);
  return {
    capabilities: () => transport.call("get_server_capabilities", undefined, Capabilities),
    openSession: () => openSession(transport),
    async resumeSession(id) {
      await beat(transport, id);
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
        await transport.delete(deletionOf(path));
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
  if (created.error_message) throw new MgrpoError("endpoint-refused", `create_session: ${created.error_message}`);
  return keepSession(transport, created.session_id);
}

const beat = (transport: Transport, session_id: string) =>
  transport.call("session_heartbeat", { session_id, type: "session_heartbeat" }, Heartbeat);

function keepSession(transport: Transport, session_id: string): TinkerSession {
  // A beat that is lost matters only when all are, and then the next call says so.
  const timer = setInterval(() => beat(transport, session_id).catch(() => {}), BEAT_SECONDS * 1000).unref();
  let models = 0;
  return {
    id: session_id,
    async createModel(baseModel, lora, before) {
      const lora_config = { ...lora, train_attn: true, train_mlp: true, train_unembed: true };
      const body = { session_id, model_seq_id: models++, base_model: baseModel, lora_config, type: "create_model" };
      const { model_id, request_id } = await transport.call("create_model", body, ModelSubmitted);
      const made = await transport.result({ requestId: request_id, path: "create_model", body }, ModelCreated);
      const [base, rank] = [made.base_model ?? baseModel, made.lora_config?.rank ?? lora.rank];
      if (base !== baseModel || rank !== lora.rank) {
        throw new MgrpoError(
          "endpoint-refused",
          `create_model: asked for rank ${lora.rank} on '${baseModel}', the server made rank ${rank} on '${base}'`,
        );
      }
      return openModel(transport, model_id, 1, before);
    },
    async resumeModel(model_id, next, before) {
      const { status } = await transport.call("get_info", { model_id, type: "get_info" }, ModelInfo);
      return status?.startsWith("unload") ? undefined : openModel(transport, model_id, next, before);
    },
    close: () => clearInterval(timer),
  };
}

function openModel(transport: Transport, model_id: string, first: number, before?: BeforeCall): TinkerModel {
  let next = first;
  /** The body of the next call, once it may be sent. */
  async function numbered(path: string, content: object) {
    const seq_id = next++;
    const body = { model_id, seq_id, ...content };
    if (before) await before(seq_id, path, body);
    return body;
  }

  async function pass(path: string, field: string, batches: readonly (readonly Datum[])[], loss_fn: LossFunction) {
    const submitted: { ticket: Ticket; count: number }[] = [];
    for (const data of batches) {
      const body = await numbered(path, { [field]: { data, loss_fn } });
      submitted.push({ ticket: await transport.submit(path, body), count: data.length });
    }
    const results = await Promise.all(
      submitted.map(async ({ ticket, count }) => {
        const { loss_fn_outputs: outputs } = await transport.result(ticket, PassResult);
        if (outputs.length === count) return outputs.map(({ logprobs }) => logprobs.data);
        throw new MgrpoError("endpoint-refused", `${path}: ${outputs.length} outputs for ${count} sequences`);
      }),
    );
    return results.flat();
  }

  async function save(path: string, kind: string): Promise<string> {
    for (let tried = 1; ; tried++) {
      const body = await numbered(path, { path: `${kind}-${next}`, type: path });
      try {
        return (await transport.work(path, body, Saved)).path;
      } catch (error) {
        if (tried === SAVE_NAMES || !isMgrpoError(error, "endpoint-refused") || error.evidence !== 409) throw error;
      }
    }
  }

  return {
    id: model_id,
    forward: (batches, loss) => pass("forward", "forward_input", batches, loss),
    forwardBackward: (batches, loss) => pass("forward_backward", "forward_backward_input", batches, loss),
    async optimizerStep(adam_params) {
      const body = await numbered("optim_step", { adam_params, type: "optim_step" });
      return transport.work("optim_step", body, OptimizerResult);
    },
    saveWeights: () => save("save_weights", "weights"),
    saveForSampler: () => save("save_weights_for_sampler", "sampler"),
    async loadWeights(path) {
      const body = await numbered("load_weights", { path, optimizer: true, type: "load_weights" });
      await transport.work("load_weights", body, Loaded);
    },
    async remembersCalls(data) {
      const send = async (body: object) => {
        const ticket = await transport.submit("forward", body);
        await transport.result(ticket, PassResult);
        return ticket.requestId;
      };
      const pass = () => numbered("forward", { forward_input: { data, loss_fn: "cross_entropy" } });
      const first = await pass();
      const done = await send(first);
      await send(await pass());
      try {
        return (await send(first)) === done;
      } catch (error) {
        if (isMgrpoError(error, "endpoint-refused")) return false;
        throw error;
      }
    },
    async unload() {
      await transport.work("unload_model", { model_id, type: "unload_model" }, ModelUnloaded);
    },
  };
}

/** `tinker://<model>/weights/<name>`, `tinker://<model>/sampler_weights/<name>`, or SkyRL's `tinker://<model>/<name>` of the latter. */
function deletionOf(path: string): string {
  const [model = "", ...rest] = path.replace("tinker://", "").split("/");
  const [kind, name] = rest.length === 1 ? ["sampler_weights", rest[0]] : rest;
  return `training_runs/${model}/checkpoints/${kind}/${name}`;
}
