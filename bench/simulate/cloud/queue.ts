/**
 * @file SQS in front of a function, as Lambda polls it. A failed event returns when the visibility timeout of its delivery is over; after
 * its fifth failed delivery, it becomes a dead letter.
 */
import { EVENT_BYTES } from "../../../adapters/aws/limits.ts";
import { EVENT_FUNCTIONS } from "../../../stacks/sizes.ts";
import { QUEUE_SCALING } from "../limits.ts";
import { type Lambda, now } from "./lambda.ts";
import { type Cloud, pause } from "./store.ts";

/** As stacks/events.ts sets them. */
const VISIBILITY_FACTOR = 6;
const DELIVERIES = 5;

interface QueuedMessage {
  readonly messageId: string;
  readonly body: string;
  deliveries: number;
}

export class EventQueue {
  readonly #name: keyof typeof EVENT_FUNCTIONS;
  readonly #lambda: Lambda;
  readonly #cloud: () => Cloud;
  readonly #messages: QueuedMessage[] = [];
  /** Batches in flight. */
  #inFlight = 0;
  #backlogSince: number | undefined;
  #willPoll = false;
  #sent = 0;

  constructor(name: keyof typeof EVENT_FUNCTIONS, lambda: Lambda, cloud: () => Cloud) {
    this.#name = name;
    this.#lambda = lambda;
    this.#cloud = cloud;
  }

  send(body: string): void {
    const bytes = Buffer.byteLength(body);
    if (bytes > EVENT_BYTES) throw new Error(`an event of ${bytes} bytes: the limit is ${EVENT_BYTES}`);
    this.#cloud().meter.queueRequests += 1;
    this.#put({ messageId: String(this.#sent++), body, deliveries: 0 });
  }

  #put(message: QueuedMessage): void {
    this.#messages.push(message);
    this.#poll();
  }

  #poll(): void {
    while (this.#messages.length > 0 && this.#inFlight < this.#maxBatches() && this.#lambda.hasRoom) {
      this.#inFlight += 1;
      const batch = this.#messages.splice(0, EVENT_FUNCTIONS[this.#name].batch);
      this.#handle(batch).finally(() => {
        this.#inFlight -= 1;
        this.#poll();
      });
    }
    if (this.#messages.length === 0) {
      this.#backlogSince = undefined;
      return;
    }
    this.#backlogSince ??= now();
    if (this.#inFlight === 0) this.#pollLater();
  }

  /** Needed while other calls use up the account's concurrency: no batch of this queue is in flight, so none ends and polls again. */
  #pollLater(): void {
    if (this.#willPoll) return;
    this.#willPoll = true;
    pause(1).then(() => {
      this.#willPoll = false;
      this.#poll();
    });
  }

  /** The number of concurrent batches to which Lambda has scaled, given how long the backlog has lasted. */
  #maxBatches(): number {
    if (this.#backlogSince === undefined) return QUEUE_SCALING.initial;
    const grown = QUEUE_SCALING.initial + ((now() - this.#backlogSince) / 60) * QUEUE_SCALING.perMinute;
    return Math.min(Math.floor(grown), QUEUE_SCALING.max);
  }

  async #handle(batch: readonly QueuedMessage[]): Promise<void> {
    const { meter } = this.#cloud();
    meter.queueRequests += 2;
    const visibleAt = now() + VISIBILITY_FACTOR * EVENT_FUNCTIONS[this.#name].seconds;
    const Records = batch.map(({ messageId, body }) => ({ messageId, body }));
    const result = await this.#lambda.call(this.#name, { Records });
    const failed = new Set(result?.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    for (const message of batch) if (!result || failed.has(message.messageId)) this.#fail(message, visibleAt);
  }

  #fail(message: QueuedMessage, visibleAt: number): void {
    const { meter } = this.#cloud();
    meter.functionUse(this.#name).failed += 1;
    message.deliveries += 1;
    if (message.deliveries >= DELIVERIES) meter.deadLetters += 1;
    else pause(visibleAt - now()).then(() => this.#put(message));
  }
}
