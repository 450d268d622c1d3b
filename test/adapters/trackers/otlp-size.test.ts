/**
 * @file OTLP receivers that limit a request's size, reject some of its spans, refuse text that is not UTF-8 or echo an API key, and addresses
 * without an OTLP receiver.
 */
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { openOtlp } from "../../../adapters/trackers/otlp.ts";
import { readTracedRollouts } from "../../../cli/local/traced-rollouts.ts";
import type { TracedRollout } from "../../../core/monitoring/spans.ts";
import { config, storeOfFinishedRun } from "../../cli/records.ts";
import { serveHttp } from "../../fakes/http-server.ts";

const line = { step: 1, time: 1_700_000_010_000, source: "step", metrics: { "time/step": 10 } };

interface Answer {
  readonly type: string;
  readonly body: Uint8Array | string;
}

/** A receiver that answers 413, or `refusal` with 400, to what is too large. `accepted`: the rollouts in each request that it took. */
async function receiver(
  isTooLarge: (rollouts: number, body: string) => boolean,
  answer: Answer = { type: "application/x-protobuf", body: "" },
  refusal?: string,
) {
  const accepted: number[] = [];
  const origin = await serveHttp(async (request, response) => {
    const body = (await buffer(request)).toString("latin1");
    const rollouts = body.split("invoke_agent main").length - 1;
    const refused = isTooLarge(rollouts, body);
    if (!refused) accepted.push(rollouts);
    const status = refusal === undefined ? 413 : 400;
    response.writeHead(refused ? status : 200, { "content-type": answer.type }).end(refused ? refusal : answer.body);
  });
  const url = `${origin}/v1/traces`;
  const reports: string[] = [];
  const send = (rollouts: readonly TracedRollout[], headers: Record<string, string> = {}, query = "") =>
    openOtlp({
      ...{ url: `${url}${query}`, headers, run: "tiny", identity: "tiny", rollouts: async () => rollouts },
      report: (text) => reports.push(text),
    }).send([line], new AbortController().signal);
  return { url, accepted, reports, send };
}

async function manyRollouts(count: number): Promise<TracedRollout[]> {
  const [one = expect.fail("no rollout")] = await readTracedRollouts(await storeOfFinishedRun(), config, 0);
  const { outcome } = one;
  return Array.from({ length: count }, (_, rollout) => ({
    ...one,
    outcome: { ...outcome, address: { ...outcome.address, rollout } },
  }));
}

test("a batch that is too large is halved until it fits, and every rollout arrives once", async () => {
  const { accepted, reports, send } = await receiver((rollouts) => rollouts > 10);
  await send(await manyRollouts(40));
  // 32 of 40 in halves of halves, then the other 8.
  expect(accepted).toEqual([8, 8, 8, 8, 8]);
  expect(reports).toEqual([]);
});

test("OpenTelemetry's collector answers 400 to what is too large: its batches are halved too; another 400 is a failure", async () => {
  // The protobuf of a Status: its code and its message.
  const collector = await receiver(
    (rollouts) => rollouts > 10,
    undefined,
    "\b\u0003\u0012\u001chttp: request body too large",
  );
  await collector.send(await manyRollouts(40));
  expect(collector.accepted).toEqual([8, 8, 8, 8, 8]);
  const other = await receiver(() => true, undefined, "unknown field");
  await expect(other.send(await manyRollouts(2))).rejects.toMatchObject({ code: "tracker-unavailable" });
});

test("a batch of more than 16 MiB is halved before it is sent", async () => {
  const bytes: number[] = [];
  const { accepted, send } = await receiver((_rollouts, body) => {
    bytes.push(body.length);
    return false;
  });
  const note = "x".repeat(5 * 2 ** 20);
  await send((await manyRollouts(4)).map((one) => ({ ...one, content: true, note })));
  expect(accepted).toEqual([2, 2]);
  expect(Math.max(...bytes)).toBeLessThan(16 * 2 ** 20);
});

test("a rollout that is too large even alone is left out with one line, and the others arrive", async () => {
  const { url, accepted, reports, send } = await receiver((_rollouts, body) => body.includes("huge"));
  const rollouts = await manyRollouts(7);
  await send(rollouts.map((one, i) => (i === 2 ? { ...one, models: { ...one.models, main: "huge" } } : one)));
  expect(accepted).toEqual([2, 1, 3]);
  expect(reports).toEqual([
    `step 1: the OTLP receiver at ${url} refuses large requests: 1 of the step's rollouts is too large even alone, and was left out; raise the receiver's request size limit`,
  ]);
});

test("spans that the receiver rejects although it takes the request are reported, in one line per step", async () => {
  // partial_success { rejected_spans: 3, error_message: "quota" }
  const body = Uint8Array.of(0x0a, 9, 0x08, 3, 0x12, 5, ...new TextEncoder().encode("quota"));
  const { url, reports, send } = await receiver(() => false, { type: "application/x-protobuf", body });
  await send(await manyRollouts(40));
  expect(reports).toEqual([`step 1: the OTLP receiver at ${url} rejected 6 of the step's spans (quota)`]);
});

test.each(["", "{}", "ok"])(
  "a body that rejects nothing is a success, even if it is not protobuf: '%s'",
  async (body) => {
    const { accepted, reports, send } = await receiver(() => false, { type: "application/x-protobuf", body });
    await send(await manyRollouts(1));
    expect([accepted, reports]).toEqual([[1], []]);
  },
);

test("a web page in place of the receiver's response is a failure: nothing counts as sent", async () => {
  const { send } = await receiver(() => false, { type: "text/html; charset=utf-8", body: "<title>Log in</title>" });
  await expect(send(await manyRollouts(1))).rejects.toMatchObject({
    code: "tracker-unavailable",
    retryable: true,
    message: expect.stringContaining("answered with a web page, so it is not an OTLP receiver"),
  });
});

test("an unpaired surrogate is sent as U+FFFD: its bytes are not UTF-8, and a receiver would refuse the whole request", async () => {
  const texts: string[] = [];
  const { send } = await receiver((_rollouts, body) => {
    texts.push(Buffer.from(body, "latin1").toString());
    return false;
  });
  const rollouts = await manyRollouts(1);
  await send(rollouts.map((one) => ({ ...one, content: true, note: "cut \ud83d off" })));
  expect(texts).toEqual([expect.stringContaining("cut \ufffd off")]);
});

test("no message contains an API key that the receiver echoes, or the query string of its URL", async () => {
  const { url, send } = await receiver(() => true, undefined, "unknown key secret-key-7 in Bearer secret-key-7");
  const error: unknown = await send(
    await manyRollouts(1),
    { authorization: "Bearer secret-key-7" },
    "?token=word",
  ).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: `the OTLP receiver at ${url} answered 400: unknown key *** in ***` });
});
