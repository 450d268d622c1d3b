/**
 * @file What the agents and the functions of a trial call outside the store: an OpenAI-compatible judge, a page for every word, the API of
 * a priced searcher (priced-model.ts), and `/think`, an empty response that the sampler waits for, so that the fault proxy can delay
 * sampling. Every answer is a function of the request and of the kind of hostile page, but what the API's answers cost depends on their order.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { follows } from "../fixtures/relay/questions.ts";
import { hostileDocuments } from "./hostile-pages.ts";
import { API_PATH, COST_HEADER, openPricedModel, type PricedAnswer } from "./priced-model.ts";
import type { HostilePage } from "./schedule.ts";

/** Tokens of every verdict, and the prices that the config states, in USD per million tokens. */
const USAGE = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
export const PRICES = { input: 10, output: 100 };
/** What the tool pays for a page, in USD. */
export const PAGE_USD = 0.001;
/** What a verdict costs. */
const VERDICT_MICRO_USD = USAGE.prompt_tokens * PRICES.input + USAGE.completion_tokens * PRICES.output;

/** The word whose page is hostile. A training question and a held-out one ask about it. */
export const HOSTILE_WORD = "cedar";

export interface World {
  readonly port: number;
  close(): void;
}

export async function openWorld(hostilePage: HostilePage): Promise<World> {
  const { type, bytes } = hostileDocuments[hostilePage];
  const served: Served = { hostilePage: { type, bytes: bytes() }, pricedModel: openPricedModel() };
  const server = createServer((request, response) => void answer(served, request, response));
  // The proxies pass the header `Keep-Alive` on, so no caller closes an idle connection soon after an answer.
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

export const PLAIN = "text/plain";

interface Page {
  readonly type: string;
  readonly bytes: Uint8Array;
}

interface Served {
  readonly hostilePage: Page;
  readonly pricedModel: (request: string) => PricedAnswer;
}

async function answer(
  { hostilePage, pricedModel }: Served,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://world");
  if (pathname === "/page") sendPage(response, pageOf(searchParams.get("word") ?? "", hostilePage));
  else if (pathname === "/think") response.end();
  else if (pathname.startsWith(API_PATH)) sendAnswer(response, pricedModel(text));
  else judge(JSON.parse(text), response);
}

const pageOf = (word: string, hostilePage: Page): Page =>
  word === HOSTILE_WORD ? hostilePage : { type: PLAIN, bytes: Buffer.from(follows(word)) };

const sendPage = (response: ServerResponse, { type, bytes }: Page): unknown =>
  response.writeHead(200, { "content-type": type }).end(bytes);

const sendAnswer = (response: ServerResponse, { microUsd, body }: PricedAnswer): unknown =>
  response.writeHead(200, { "content-type": "application/json", [COST_HEADER]: String(microUsd) }).end(body);

interface ChatRequest {
  readonly messages: readonly { readonly content: string }[];
}

function judge({ messages }: ChatRequest, response: ServerResponse): void {
  const asked = messages.at(-1)?.content ?? "{}";
  const verdict = JSON.stringify(verdictOn(JSON.parse(asked)));
  response.writeHead(200, {
    "content-type": "application/json",
    "x-micro-usd": String(VERDICT_MICRO_USD),
  });
  const message = { role: "assistant", content: verdict };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  response.end(
    JSON.stringify({ id: "verdict", object: "chat.completion", created: 0, model: "judge", choices, usage: USAGE }),
  );
}

interface Judged {
  readonly answer?: string;
  readonly reference?: string;
  readonly task?: string;
  readonly report?: string;
}

function verdictOn({ answer: given, reference, task = "", report = "" }: Judged): object {
  if (reference !== undefined)
    return { reason: "compared", stated: given ?? "", correct: (given ?? "").includes(reference) };
  const word = task.replace("look up ", "").split(" ")[0] ?? "";
  return { reason: "looked up", score: report === follows(word) ? 1 : 0.25 };
}
