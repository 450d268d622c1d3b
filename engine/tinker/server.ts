/** @file One Tinker server as this process uses it: its client, its shared session, its models, and how it behaves. */
import type { TinkerCalls } from "../../core/contracts/tinker-calls.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import {
  type BeforeCall,
  openTinkerClient,
  type TinkerClient,
  type TinkerModel,
  type TinkerSession,
} from "./client/client.ts";
import type { TransportOptions } from "./client/transport.ts";
import { probeServer, type ServerBehavior } from "./probe.ts";
import type { TinkerVersion } from "./version.ts";

/** Timeout of each request of the check before a run. */
const CHECK_SECONDS = 5;

/** A model in its own session, so that resuming it keeps no other model of a dead process alive. */
export interface OwnModel {
  readonly session: TinkerSession;
  readonly model: TinkerModel;
}

export class TinkerServer {
  readonly client: TinkerClient;
  readonly baseUrl: string;
  /** Does not retry, and gives up on a request after `CHECK_SECONDS`. */
  readonly #checkClient: TinkerClient;
  readonly #session = new Lazy<TinkerSession>();
  readonly #behavior = new Lazy<ServerBehavior>();

  constructor(transport: TransportOptions) {
    this.baseUrl = transport.baseUrl;
    this.client = openTinkerClient(transport);
    this.#checkClient = openTinkerClient({ ...transport, retrySeconds: 0, requestSeconds: CHECK_SECONDS });
  }

  /** The server's name for the base model. Rejects if the server lacks the model, or supports too little context. */
  resolve(version: TinkerVersion, contextTokens: number): Promise<string> {
    return this.#resolveWith(this.client, version, contextTokens);
  }

  /** Like `resolve`, but fails fast: without retries, and with a short timeout. */
  check(version: TinkerVersion, contextTokens: number): Promise<string> {
    return this.#resolveWith(this.#checkClient, version, contextTokens);
  }

  /** How the server behaves, probed once, on a throwaway model. */
  behavior(base: string, version: TinkerVersion, vocabulary: number): Promise<ServerBehavior> {
    return this.#behavior.get(async () => {
      const model = await this.#createModel(await this.#sharedSession(), base, { ...version, weights: null });
      try {
        return await probeServer(this.client, model, vocabulary);
      } finally {
        await this.unload(model);
      }
    });
  }

  /** A model loaded with the version, optimizer state included. The caller alone owns it. */
  async open(base: string, version: TinkerVersion): Promise<TinkerModel> {
    return this.#createModel(await this.#sharedSession(), base, version);
  }

  /** The next `open` uses a new session: SkyRL never unloads a model that is created in an expired one. */
  renewSession(): void {
    this.#session.forget();
  }

  /** Like `open`, in a separate session. */
  async openAlone(base: string, version: TinkerVersion, before: BeforeCall): Promise<OwnModel> {
    const session = await this.client.openSession();
    return { session, model: await closedOnFailure(session, this.#createModel(session, base, version, before)) };
  }

  /** Another process's model, to repeat its calls starting at `from`. Undefined if the server no longer has it. */
  async resume({ session: id, model: modelId, from }: TinkerCalls, before: BeforeCall): Promise<OwnModel | undefined> {
    try {
      const session = await this.client.resumeSession(id);
      const model = await closedOnFailure(session, session.resumeModel(modelId, from, before));
      if (model) return { session, model };
      session.close();
    } catch (error) {
      if (!isMgrpoError(error, "endpoint-refused")) throw error;
    }
    return undefined;
  }

  /** Ignores failures: a model that cannot be unloaded disappears with its session, or when the server restarts. */
  async unload(model: TinkerModel): Promise<void> {
    await model.unload().catch(() => {});
  }

  #sharedSession(): Promise<TinkerSession> {
    return this.#session.get(() => this.client.openSession());
  }

  async #createModel(
    session: TinkerSession,
    base: string,
    { rank, seed, weights }: TinkerVersion,
    before?: BeforeCall,
  ): Promise<TinkerModel> {
    const model = await session.createModel(base, { rank, seed }, before).catch((error: unknown) => {
      throw translated(this.baseUrl, error);
    });
    if (weights === null) return model;
    try {
      await model.loadWeights(weights);
    } catch (error) {
      await this.unload(model);
      throw error;
    }
    return model;
  }

  async #resolveWith(client: TinkerClient, { baseModel }: TinkerVersion, contextTokens: number): Promise<string> {
    const { supported_models: models } = await client.capabilities();
    // A full name wins: it may also be the last path segment of another model's name.
    const found =
      models.find(({ model_name: name }) => name === baseModel) ??
      models.find(({ model_name: name }) => name?.endsWith(`/${baseModel}`));
    if (!found?.model_name) {
      const names = models.map(({ model_name: name }) => name).join(", ");
      throw new MgrpoError(
        "config-invalid",
        `${this.baseUrl} serves ${names || "no model"}, not '${baseModel}': set policy to tinker:${this.baseUrl}#<a model that it serves>, and agents.*.model to a folder with that model's tokenizer`,
      );
    }
    const maximum = found.max_context_length ?? Number.POSITIVE_INFINITY;
    if (maximum < contextTokens) {
      throw new MgrpoError(
        "config-invalid",
        `limits.contextTokens is ${contextTokens}, but ${this.baseUrl} supports at most ${maximum} for '${found.model_name}': lower it`,
      );
    }
    return found.model_name;
  }
}

/**
 * SkyRL's refusals of one more adapter, and what to do about each: FSDP has one per server (its refusal is a whole traceback), JAX as many as it
 * was started with.
 */
const ADAPTER_LIMITS: readonly (readonly [RegExp, string])[] = [
  [
    /supports a single LoRA adapter/,
    "holds one adapter, as SkyRL's FSDP backend does, but a run needs one to train and one for each version that it samples: start SkyRL with --backend jax or megatron",
  ],
  [
    /Maximum number of LoRA adapters \(\d+\) reached/,
    "has no room for one more adapter: start SkyRL with a larger max_lora_adapters in its --backend-config, or wait until it unloads those of a process that died (5 minutes)",
  ],
];

/** A one-line error if the server has no room for another adapter; any other error unchanged. */
function translated(baseUrl: string, error: unknown): unknown {
  if (!isMgrpoError(error, "endpoint-refused")) return error;
  const [, limit] = ADAPTER_LIMITS.find(([refusal]) => refusal.test(error.message)) ?? [];
  if (limit === undefined) return error;
  return new MgrpoError("endpoint-refused", `${baseUrl} ${limit}`, { cause: error, evidence: error.evidence });
}

/** Whether SkyRL refused a call because it no longer has the model: it was restarted, or got no heartbeat for 5 minutes. */
export const isModelLost = (error: unknown): boolean =>
  isMgrpoError(error, "endpoint-refused") && /\bModel (\S+ )?not loaded/.test(error.message);

/** Closes the session if its model cannot be opened: its heartbeat would keep its models loaded. */
function closedOnFailure<T>(session: TinkerSession, opening: Promise<T>): Promise<T> {
  return opening.catch((error: unknown) => {
    session.close();
    throw error;
  });
}

/** A value that is created once. After a failure, the next `get` tries again. */
class Lazy<T> {
  #value: Promise<T> | undefined;

  get(create: () => Promise<T>): Promise<T> {
    this.#value ??= create().catch((error: unknown) => {
      this.#value = undefined;
      throw error;
    });
    return this.#value;
  }

  /** The next `get` creates another. */
  forget(): void {
    this.#value = undefined;
  }
}
