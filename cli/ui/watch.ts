/**
 * @file Looks at something again and again for the pages that show it: one loop, while a page listens, however many do.
 *
 *     add ──> loop: look ──changed──> every listener      ends with the last listener
 *                     └──failed──> every listener, once per failure; one that may pass only if the next look fails too
 */
import { isMgrpoError, type MgrpoError } from "../../core/errors.ts";
import type { Failure } from "../../ui/views.ts";

export interface Listener<View> {
  show(view: View): void;
  fail(failure: Failure): void;
}

export interface PollOptions<View> {
  /** Calls `tell` with what it has found, also in parts: the newest view counts. */
  look(tell: (view: View) => void, known: View | undefined): Promise<void>;
  readonly seconds: number;
  report(line: string): void;
}

/** An error that may be gone at the next look: the process that trains a run may end between two reads. */
export const mayPass = ({ code, retryable }: MgrpoError): boolean => retryable || code === "store-unreachable";

export class Watch<View> {
  readonly #options: PollOptions<View>;
  readonly #listeners = new Set<Listener<View>>();
  #newest: View | undefined;
  /** What listeners were told last, unless it was a view. */
  #failure: Failure | undefined;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(options: PollOptions<View>) {
    this.#options = options;
  }

  /** Shows the listener the newest view now, and every change. */
  add(listener: Listener<View>): void {
    this.#listeners.add(listener);
    if (this.#newest !== undefined) listener.show(this.#newest);
    if (this.#failure) listener.fail(this.#failure);
    if (this.#timer === undefined && !this.#isLooking) void this.#loop();
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
    this.#isLooking = true;
    try {
      await this.#options.look((view) => this.#show(view), this.#newest);
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      this.#fail(error);
    }
    this.#isLooking = false;
    if (this.#listeners.size > 0) this.#timer = setTimeout(() => void this.#loop(), this.#options.seconds * 1000);
  }

  #show(view: View): void {
    const isSame = this.#failure === undefined && JSON.stringify(view) === JSON.stringify(this.#newest);
    this.#failure = undefined;
    this.#newest = view;
    if (!isSame) for (const listener of this.#listeners) listener.show(view);
  }

  #fail(error: unknown): void {
    if (isMgrpoError(error) && mayPass(error) && this.#failures < 2) return;
    if (!isMgrpoError(error) && this.#failures === 1) this.#options.report(String(error));
    const failure: Failure = isMgrpoError(error)
      ? { code: error.code, message: error.message }
      : { code: "internal", message: `the dashboard failed: ${String(error)}` };
    if (failure.message === this.#failure?.message) return;
    this.#failure = failure;
    for (const listener of this.#listeners) listener.fail(failure);
  }
}
