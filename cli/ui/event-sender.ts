/**
 * @file Writes the events of one stream, one at a time. While one is written, only the newest of the others is kept: a page that stops reading
 * must not fill this process's memory. Each event is a whole view or a failure, so the newest is enough.
 *
 *     send ──nothing is being written──> writing ──written──> the newest event that arrived meanwhile, if any
 *                                                    waits for: the page to read     unblocked by: the page, or the stream's end
 */
export class EventSender<Event> {
  readonly #write: (event: Event) => Promise<void>;
  #next: { readonly event: Event } | undefined;
  #isWriting = false;

  /** @param write resolves once the event is on its way; never rejects. */
  constructor(write: (event: Event) => Promise<void>) {
    this.#write = write;
  }

  get isWriting(): boolean {
    return this.#isWriting;
  }

  send(event: Event): void {
    this.#next = { event };
    if (!this.#isWriting) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    while (this.#next) {
      const { event } = this.#next;
      this.#next = undefined;
      await this.#write(event);
    }
    this.#isWriting = false;
  }
}
