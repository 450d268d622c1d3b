/**
 * @file The model of a trainer, each of whose calls is written down before it is made, so that a process that dies repeats nothing:
 *
 *     the journal tells of this server and version, and the model is there?
 *        no    a fresh model that holds the version. Each call is written down, then made
 *        yes   that very model. The calls since it held the version are made again under their numbers, up to the last that was
 *              written down: the server answers them with what it did. Then each call is written down, then made
 *
 * Until such a model has been saved, whatever the server refuses may come of what was taken over: the journal is cleared, the model left,
 * and `replay-failed` says that the step is to be begun anew. README.md: why no gradient is counted twice.
 */
import type { TinkerCalls } from "../../core/contracts/tinker-calls.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CallJournal } from "../../core/ports.ts";
import { sha256 } from "../hash.ts";
import type { TinkerModel } from "./client/client.ts";
import type { OwnModel, TinkerServer } from "./server.ts";
import { type TinkerVersion, writeTinkerVersion } from "./version.ts";

export interface JournaledModel {
  on<T>(work: (model: TinkerModel) => Promise<T>): Promise<T>;
  /** Saves it, as the version that it holds from then on. */
  save(): Promise<TinkerVersion>;
  /** Unloads it, unless another process goes on with it. */
  leave(): Promise<void>;
}

export interface JournalUse {
  readonly journal: CallJournal;
  /** Whether a model that the journal tells of may be gone on with. */
  readonly resumes: boolean;
}

/** For trainers that nobody goes on from. */
export const NO_JOURNAL: CallJournal = { take: async () => null, write: async () => {} };

const identityOf = (version: TinkerVersion) => sha256(writeTinkerVersion(version));

export async function openJournaledModel(
  server: TinkerServer,
  base: string,
  version: TinkerVersion,
  { journal, resumes }: JournalUse,
): Promise<JournaledModel> {
  const { baseUrl } = server;
  let held = version;
  let own: OwnModel | undefined;
  /** The calls since the model held the version. */
  let made: Pick<TinkerCalls, "from" | "last" | "digest"> | undefined;

  async function before(seqId: number, path: string, body: object) {
    // What loads the version is a part of opening it.
    if (!own) return;
    const digest = sha256(`${made?.digest ?? ""} ${path} ${JSON.stringify(body)}`);
    made = { from: made?.from ?? seqId, last: seqId, digest };
    if (!replayed || seqId > replayed.last) {
      const where = { server: baseUrl, session: own.session.id, model: own.model.id, version: identityOf(held) };
      await journal.write({ ...where, ...made });
    } else if (seqId === replayed.last && digest !== replayed.digest) {
      throw differs(`call ${seqId}`);
    }
  }

  const written = await journal.take();
  const isOurs = resumes && written?.server === baseUrl && written.version === identityOf(version);
  own = isOurs ? await server.resume(written, before) : undefined;
  let replayed = own && isOurs ? written : undefined;
  own ??= await server.openAlone(base, version, before);
  const { session, model } = own;

  async function on<T>(work: (model: TinkerModel) => Promise<T>): Promise<T> {
    try {
      return await work(model);
    } catch (cause) {
      if (!replayed || !isMgrpoError(cause, "replay-failed", "endpoint-refused", "endpoint-unavailable")) throw cause;
      await journal.write(null);
      session.close();
      await server.leave(model);
      const message = `${baseUrl} does not go on with model '${model.id}' of the process before: ${cause.message}`;
      throw new MgrpoError("replay-failed", message, { retryable: true, cause });
    }
  }

  return {
    on,
    async save() {
      const weights = await on(async () => {
        const path = await model.saveWeights();
        if (replayed && (made?.last ?? 0) < replayed.last) throw differs(`there are calls up to ${replayed.last}`);
        return path;
      });
      // Not written down before the next call: until its manifest is there, a version is nobody's, and the step may have to be gone on from.
      [held, made, replayed] = [{ ...held, weights }, undefined, undefined];
      return held;
    },
    async leave() {
      session.close();
      try {
        await journal.write(null);
      } catch {
        // Another process may go on with the model, or none can be told that it is gone. Without a beat the server unloads it.
        return;
      }
      await server.leave(model);
    },
  };
}

const differs = (what: string) =>
  new MgrpoError("replay-failed", `the calls are not those that were written down: ${what}`);
