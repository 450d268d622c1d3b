/**
 * @file Loads a view again whenever its revision changes, one load at a time. The last revision to arrive during a load is loaded next, so
 * revisions that change faster than a view loads neither cancel the load nor pile up.
 */
export class Reloader {
  #wanted: string | undefined;
  #isLoading = false;
  #isClosed = false;

  /** @param load resolves to whether it succeeded: if not, it is repeated. */
  async request(revision: string | undefined, load: () => Promise<boolean>): Promise<void> {
    this.#wanted = revision;
    if (this.#isLoading) return;
    this.#isLoading = true;
    for (let isDone = false; !isDone && !this.#isClosed; ) {
      const loaded = this.#wanted;
      isDone = (await load()) && loaded === this.#wanted;
    }
    this.#isLoading = false;
  }

  /** The page that shows the view is gone: nothing is loaded after the load that is under way. */
  close(): void {
    this.#isClosed = true;
  }
}
