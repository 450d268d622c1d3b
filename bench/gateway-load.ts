/**
 * @file gateway.load.*: 64 attempts with 16 requests each in flight at once, 1,024 in all, of which every eighth is a stream whose client
 * reads nothing until the others are done. Seconds until the others have their responses, and the heap that the process has gained by then
 * and after the attempts.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { openGateway, openInstantAgent, rolloutPrompt } from "./instant-agent.ts";
import { print } from "./measurement.ts";

const ATTEMPTS = 64;
const REQUESTS = 16;
const SLOW_EVERY = 8;
const MEGABYTE = 1e6;
const config = { attempts: ATTEMPTS, requests: ATTEMPTS * REQUESTS, slow: ATTEMPTS * (REQUESTS / SLOW_EVERY) };

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
const { agent } = openInstantAgent(1);
const gateway = await openGateway(agent, REQUESTS);
const before = heapMegabytes();
const opened = Array.from({ length: ATTEMPTS }, (_, i) => gateway.open(i));
const start = performance.now();
const sent = opened.flatMap((access, i) =>
  Array.from({ length: REQUESTS }, (_, n) => ask(access, i * REQUESTS + n, n % SLOW_EVERY === 0)),
);
const quick = sent.filter(({ isSlow }) => !isSlow);
await Promise.all(quick.map(({ done }) => done));
print("gateway.load.seconds", (performance.now() - start) / 1000, "s", config);
print("gateway.load.heap", heapMegabytes() - before, "MB", config);
for (const { release } of sent) release();
await Promise.all(sent.map(({ done }) => done));
for (const { attempt } of opened) {
  await attempt.settled();
  gateway.attempts.close(attempt);
  attempt.discard();
}
print("gateway.load.heap.after", heapMegabytes() - before, "MB", config);
await gateway.close();

/** Starts a new conversation with one request. A slow reader leaves the response in the socket until it is released. */
function ask({ key, base }: { key: string; base: string }, n: number, isSlow: boolean) {
  const body = JSON.stringify({
    model: "main",
    stream: isSlow,
    messages: [{ role: "user", content: rolloutPrompt(n) }],
  });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", "content-length": body.length };
  let response: IncomingMessage | undefined;
  let isReleased = false;
  const done = new Promise<void>((resolve, reject) => {
    const request: ClientRequest = httpRequest(`${base}/chat/completions`, { method: "POST", headers }, (incoming) => {
      response = incoming;
      if (incoming.statusCode !== 200) reject(new Error(`the gateway responded with ${incoming.statusCode}`));
      incoming.on("end", resolve).on("error", reject);
      if (!isSlow || isReleased) incoming.resume();
    });
    request.on("error", reject);
    request.end(body);
  });
  const release = () => {
    isReleased = true;
    response?.resume();
  };
  return { isSlow, done, release };
}

function heapMegabytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed / MEGABYTE;
}
