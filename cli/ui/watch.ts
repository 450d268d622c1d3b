/**
 * @file Polls a source for the pages that show it. One loop serves all listeners and runs while there is at least one.
 *
 *     add ──> loop: poll ──changed──> every listener      ends with the last listener
 *                     └──failed──> every listener, once per failure; a transient one only if the next poll fails too
 */
import { isMgrpoError, type MgrpoError } from "../../core/errors.ts";
import type { Failure } from "../../ui/views.ts";

export interface Listener<View> {
  show(view: View): void;
  fail(failure: Failure): void;
}

export interface PollOptions<View> {
  /** Calls `emit` with each view that it finds: never, once or several times. The newest counts. */
  poll(emit: (view: View) => void, known: View | undefined): Promise<void>;
  readonly seconds: number;
  report(line: string): void;
}

/** Whether the next poll may succeed: the process that trains a run may end between two reads. */
export const isTransient = ({ code, retryable }: MgrpoError): boolean => retryable || code === "store-unreachable";

export class Watch<View> {
  readonly #options: PollOptions<View>;
  readonly #listeners = new Set<Listener<View>>();
  #newest: View | undefined;
  /** The failure that listeners were sent last, unless a view followed it. */
  #failure: Failure | undefined;
  #consecutiveFailures = 0;
  #timer: NodeJS.Timeout | undefined;
  #isPolling = false;

  constructor(options: PollOptions<View>) {
    this.#options = options;
  }

  /** Sends the listener the newest view and the current failure, if there are any, and then every change. */
  add(listener: Listener<View>): void {
    this.#listeners.add(listener);
    if (this.#newest !== undefined) listener.show(this.#newest);
    if (this.#failure) listener.fail(this.#failure);
    if (this.#timer === undefined && !this.#isPolling) void this.#loop();
  }

  /** Returns the number of listeners that are left. */
  remove(listener: Listener<View>): number {
    this.#listeners.delete(listener);
    if (this.#listeners.size === 0) this.stop();
    return this.#listeners.size;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#listeners.clear();
  }

  async #loop(): Promise<void> {
    this.#isPolling = true;
    try {
      await this.#options.poll((view) => this.#show(view), this.#newest);
      this.#consecutiveFailures = 0;
    } catch (error) {
      this.#consecutiveFailures += 1;
      this.#fail(error);
    }
    this.#isPolling = false;
    if (this.#listeners.size > 0) this.#timer = setTimeout(() => void this.#loop(), this.#options.seconds * 1000);
  }

  #show(view: View): void {
    const isSame = this.#failure === undefined && JSON.stringify(view) === JSON.stringify(this.#newest);
    this.#failure = undefined;
    this.#newest = view;
    if (!isSame) for (const listener of this.#listeners) listener.show(view);
  }

  #fail(error: unknown): void {
    if (isMgrpoError(error) && isTransient(error) && this.#consecutiveFailures < 2) return;
    const failure: Failure = isMgrpoError(error)
      ? { code: error.code, message: error.message }
      : { code: "unexpected", message: `the dashboard failed: ${String(error)}` };
    if (failure.message === this.#failure?.message) return;
    if (!isMgrpoError(error)) this.#options.report(String(error));
    this.#failure = failure;
    for (const listener of this.#listeners) listener.fail(failure);
  }
}
