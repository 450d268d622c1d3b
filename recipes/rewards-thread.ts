/** @file The entry of the thread that runs the rewards of a user's recipe: opens them, then answers calls concurrently. */
import { parentPort, workerData } from "node:worker_threads";
import { fromPortable, toPortable } from "../core/portable-error.ts";
import type { Rewards, VerdictContext } from "../core/ports.ts";
import type { RewardsOpening } from "../core/recipe.ts";
import { openRewards } from "./rewards.ts";
import type { FromRewards, RewardsCall, ToRewards } from "./rewards-protocol.ts";

const port = parentPort;
if (!port) throw new Error("recipes/rewards-thread.ts runs as a worker thread only");

const send = (message: FromRewards) => port.postMessage(message);

const aborts = new Map<number, AbortController>();
const reservations = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
let nextReservation = 0;

async function start({ config, environment }: RewardsOpening): Promise<void> {
  let rewards: Rewards;
  try {
    rewards = await openRewards(config, environment);
  } catch (error) {
    send({ kind: "failed", error: toPortable(error) });
    return;
  }
  port?.on("message", (message: ToRewards) => {
    if (message.kind === "call") void handle(rewards, message);
    else if (message.kind === "abort") aborts.get(message.id)?.abort();
    else settleReservation(message);
  });
  send({ kind: "open", ...(rewards.judge !== undefined && { judge: rewards.judge }) });
}

async function handle(rewards: Rewards, { id, call, hasContext }: ToRewards & { kind: "call" }): Promise<void> {
  const abort = new AbortController();
  aborts.set(id, abort);
  try {
    const context = hasContext ? contextOf(id, abort.signal) : undefined;
    send({ kind: "judgment", id, judgment: await score(rewards, call, context) });
  } catch (error) {
    send({ kind: "error", id, error: toPortable(error) });
  } finally {
    aborts.delete(id);
  }
}

function score(rewards: Rewards, call: RewardsCall, context: VerdictContext | undefined) {
  return call.method === "correct"
    ? rewards.correct(call.question, call.conversation, context)
    : rewards.expert(call.question, call.agent, call.conversation, context);
}

function contextOf(id: number, signal: AbortSignal): VerdictContext {
  return {
    signal,
    reserve: (usd) =>
      new Promise((resolve, reject) => {
        const reservation = nextReservation++;
        reservations.set(reservation, { resolve, reject });
        send({ kind: "reserve", id, reservation, usd });
      }),
  };
}

function settleReservation({ reservation, error }: ToRewards & { kind: "reserved" }): void {
  const waiting = reservations.get(reservation);
  reservations.delete(reservation);
  if (error) waiting?.reject(fromPortable(error));
  else waiting?.resolve();
}

await start(workerData as RewardsOpening);
