/**
 * @file Loads a view again whenever its revision changes, one load at a time. The last revision to arrive during a load is loaded next, so
 * revisions that change faster than a view loads neither cancel the load nor pile up. A failed load is repeated after a pause.
 */

/** The pause before a failed load is repeated. */
const RETRY_SECONDS = 4;

export class Reloader {
  readonly #retrySeconds: number;
  #wanted: string | undefined;
  #isLoading = false;
  #isClosed = false;

  constructor(retrySeconds = RETRY_SECONDS) {
    this.#retrySeconds = retrySeconds;
  }

  /** @param load resolves to whether it succeeded: if not, it is repeated. */
  async request(revision: string | undefined, load: () => Promise<boolean>): Promise<void> {
    this.#wanted = revision;
    if (this.#isLoading) return;
    this.#isLoading = true;
    for (let isDone = false; !isDone && !this.#isClosed; ) {
      const loaded = this.#wanted;
      const hasSucceeded = await load();
      if (!hasSucceeded) await new Promise((resolve) => setTimeout(resolve, 1000 * this.#retrySeconds));
      isDone = hasSucceeded && loaded === this.#wanted;
    }
    this.#isLoading = false;
  }

  /** The page that shows the view is gone: nothing is loaded after the load that is under way. */
  close(): void {
    this.#isClosed = true;
  }
}
