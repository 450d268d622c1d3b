/** @file One Tinker server as this process knows it: its client, its sessions, the models it has, what was found out about it. */
import type { TinkerCalls } from "../../core/contracts/tinker-calls.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { type BeforeCall, openTinkerClient, type TinkerModel, type TinkerSession } from "./client/client.ts";
import type { TransportOptions } from "./client/transport.ts";
import { probeServer, type ServerBehaviour } from "./probe.ts";
import type { TinkerVersion } from "./version.ts";

/** A server that is there says what it has in no time. */
const CHECK_SECONDS = 5;

export type TinkerServer = ReturnType<typeof openServer>;

/** A model in a session of its own: who goes on with it keeps nothing else of a dead process alive. */
export interface OwnModel {
  readonly session: TinkerSession;
  readonly model: TinkerModel;
}

export function openServer(transport: TransportOptions) {
  const client = openTinkerClient(transport);
  const impatient = openTinkerClient({ ...transport, patienceSeconds: 0, requestSeconds: CHECK_SECONDS });
  const { baseUrl } = transport;
  const session = once<TinkerSession>();
  const probed = once<ServerBehaviour>();

  /** The base model by the server's own name. Refused unless it is there and takes sequences as long. */
  async function resolve({ baseModel }: TinkerVersion, contextTokens: number, by = client): Promise<string> {
    const { supported_models: models } = await by.capabilities();
    const called = (name: string, wanted: string) => name === wanted || name.endsWith(`/${wanted}`);
    const found = models.find(({ model_name: name }) => called(name ?? "", baseModel));
    if (!found?.model_name) {
      const names = models.map(({ model_name: name }) => name).join(", ");
      throw new MgrpoError(
        "config-invalid",
        `${baseUrl} serves ${names || "no model"}, not '${baseModel}': write policy tinker:${baseUrl}#<its name>, with the tokenizer of that very model in agents.*.model`,
      );
    }
    const longest = found.max_context_length ?? Number.POSITIVE_INFINITY;
    if (longest < contextTokens) {
      throw new MgrpoError(
        "config-invalid",
        `limits.contextTokens is ${contextTokens}, but ${baseUrl} takes ${longest} of '${found.model_name}': lower it`,
      );
    }
    return found.model_name;
  }

  const shared = () => session(() => client.openSession());

  async function create(by: TinkerSession, base: string, { rank, seed, weights }: TinkerVersion, before?: BeforeCall) {
    const model = await by.createModel(base, { rank, seed }, before);
    if (weights !== null) await model.loadWeights(weights);
    return model;
  }

  return {
    client,
    baseUrl,
    resolve,
    /** The same as `resolve`, with an answer at once. */
    check: (version: TinkerVersion, contextTokens: number) => resolve(version, contextTokens, impatient),
    /** How it computes; asked of it once, by training a model of its own. */
    behaviour: (base: string, version: TinkerVersion, vocabulary: number) =>
      probed(async () => {
        const model = await create(await shared(), base, { ...version, weights: null });
        try {
          return await probeServer(client, model, vocabulary);
        } finally {
          await leave(model);
        }
      }),
    /** A model of this process's own that holds the version, its optimizer included. No other call ever reaches it. */
    open: async (base: string, version: TinkerVersion) => create(await shared(), base, version),
    /** The same in a session of its own. */
    async openAlone(base: string, version: TinkerVersion, before: BeforeCall): Promise<OwnModel> {
      const alone = await client.openSession();
      return { session: alone, model: await create(alone, base, version, before) };
    },
    /** The model that another process made those calls of, which are to be made again. Undefined: it is not there any more. */
    async resume({ session: id, model, from }: TinkerCalls, before: BeforeCall): Promise<OwnModel | undefined> {
      try {
        const alone = await client.resumeSession(id);
        const found = await alone.resumeModel(model, from, before);
        if (found) return { session: alone, model: found };
        alone.close();
      } catch (error) {
        if (!isMgrpoError(error, "endpoint-refused")) throw error;
      }
      return undefined;
    },
    leave,
  };
}

/** A model that cannot be unloaded (its server died and lives again) is gone, or goes with its session. */
async function leave(model: TinkerModel): Promise<void> {
  await model.unload().catch(() => {});
}

/** The value, made once; another try after a failure. */
function once<T>(): (make: () => Promise<T>) => Promise<T> {
  let value: Promise<T> | undefined;
  return (make) => {
    value ??= make().catch((error: unknown) => {
      value = undefined;
      throw error;
    });
    return value;
  };
}
