/**
 * @file A trainer's model, each of whose calls is journaled before it is made, so that a successor of a dead process repeats no work:
 *
 *     the server remembers calls, the journal has this server and version, and the server still has the model?
 *        no    a fresh model, loaded with the version
 *        yes   that model. The calls made after the version are repeated under their numbers, up to the last one journaled; the
 *              server executes none of them twice, and returns the first results
 *     Every later call is journaled, then made.
 *
 * Until a resumed model has been saved, any refusal or failure of the server may be due to the resumption: the journal is cleared, the model
 * unloaded, and `replay-failed` makes the caller redo the step. The loss of any model has the same effect.
 * engine/tinker/README.md explains why no gradient is counted twice.
 */
import type { TinkerCalls } from "../../core/contracts/tinker-calls.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CallJournal } from "../../core/ports.ts";
import { sha256 } from "../hash.ts";
import type { TinkerModel } from "./client/client.ts";
import { isModelLost, type OwnModel, type TinkerServer } from "./server.ts";
import { type TinkerVersion, writeTinkerVersion } from "./version.ts";

export interface JournalOptions {
  readonly journal: CallJournal;
  /** Whether a journaled model may be resumed. */
  readonly canResume: boolean;
}

/** For trainers that are never resumed. */
export const NO_JOURNAL: CallJournal = { take: async () => null, write: async () => {} };

/** The journaled calls made since the model loaded or saved its version. */
type CallRange = Pick<TinkerCalls, "from" | "last" | "digest">;

const versionId = (version: TinkerVersion) => sha256(writeTinkerVersion(version));

export class JournaledModel {
  readonly #server: TinkerServer;
  readonly #journal: CallJournal;
  /** The version that the model held before `#made`. */
  #version: TinkerVersion;
  /** Undefined while the model is being opened: loading the version is not journaled. */
  #own: OwnModel | undefined;
  #made: CallRange | undefined;
  /** The dead process's calls, which are repeated first; undefined for a fresh model and once the model has been saved. */
  #replayed: CallRange | undefined;

  private constructor(server: TinkerServer, version: TinkerVersion, journal: CallJournal) {
    this.#server = server;
    this.#version = version;
    this.#journal = journal;
  }

  static async open(
    server: TinkerServer,
    base: string,
    version: TinkerVersion,
    { journal, canResume }: JournalOptions,
  ): Promise<JournaledModel> {
    const model = new JournaledModel(server, version, journal);
    const before = (seqId: number, path: string, body: object) => model.#beforeCall(seqId, path, body);
    const journaled = await journal.take();
    const isOurs = canResume && journaled?.server === server.baseUrl && journaled.version === versionId(version);
    const resumed = isOurs ? await server.resume(journaled, before) : undefined;
    if (resumed && isOurs) model.#replayed = journaled;
    model.#own = resumed ?? (await server.openAlone(base, version, before));
    return model;
  }

  async run<T>(work: (model: TinkerModel) => Promise<T>): Promise<T> {
    const { model, session } = this.#opened;
    try {
      return await work(model);
    } catch (cause) {
      const isFault = isMgrpoError(cause, "replay-failed", "endpoint-refused", "endpoint-unavailable");
      if (!isFault || !(this.#replayed || isModelLost(cause))) throw cause;
      await this.#journal.write(null);
      session.close();
      await this.#server.unload(model);
      const loss = this.#replayed
        ? `does not resume model '${model.id}' of the previous process`
        : `has lost model '${model.id}'`;
      const message = `${this.#server.baseUrl} ${loss}: ${cause.message}`;
      throw new MgrpoError("replay-failed", message, { retryable: true, cause });
    }
  }

  /** Saves the model as its new version. */
  async save(): Promise<TinkerVersion> {
    const weights = await this.run(async (model) => {
      const path = await model.saveWeights();
      const { last } = this.#replayed ?? { last: 0 };
      if ((this.#made?.last ?? 0) < last) throw journalMismatch(`the journal has calls up to ${last}`);
      return path;
    });
    // The journal stays as it is until the next call: the step may be resumed until the manifest of the new version is published.
    this.#version = { ...this.#version, weights };
    this.#made = undefined;
    this.#replayed = undefined;
    return this.#version;
  }

  /** Unloads the model, unless the journal cannot be cleared: another process may have taken the model over. */
  async close(): Promise<void> {
    const { model, session } = this.#opened;
    session.close();
    try {
      await this.#journal.write(null);
    } catch {
      // Another process may own the journal and have resumed the model. If not, the server unloads it, as heartbeats have stopped.
      return;
    }
    await this.#server.unload(model);
  }

  get #opened(): OwnModel {
    if (!this.#own) throw new Error("a journaled model is used before it is open");
    return this.#own;
  }

  async #beforeCall(seqId: number, path: string, body: object): Promise<void> {
    if (!this.#own) return;
    const digest = sha256(`${this.#made?.digest ?? ""} ${path} ${JSON.stringify(body)}`);
    this.#made = { from: this.#made?.from ?? seqId, last: seqId, digest };
    const replayed = this.#replayed;
    if (replayed && seqId <= replayed.last) {
      if (seqId === replayed.last && digest !== replayed.digest) throw journalMismatch(`call ${seqId}`);
      return;
    }
    const { session, model } = this.#own;
    await this.#journal.write({
      server: this.#server.baseUrl,
      session: session.id,
      model: model.id,
      version: versionId(this.#version),
      ...this.#made,
    });
  }
}

const journalMismatch = (what: string) =>
  new MgrpoError("replay-failed", `the calls are not those in the journal: ${what}`);
