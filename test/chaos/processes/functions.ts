/**
 * @file The process of a trial's functions. It starts the runs, which is safe to repeat, then handles events and ticks. Argument:
 * `FunctionsArguments` as JSON.
 */
import { createServer, type IncomingMessage } from "node:http";
import { openAwsStore } from "../../../adapters/aws/store.ts";
import type { RunConfig } from "../../../core/contracts/config.ts";
import { composeFunctions } from "../../../functions/compose.ts";
import { cloudHandlers } from "../../../functions/handler.ts";
import { prepareRelay } from "../../fixtures/relay/start.ts";

export interface FunctionsArguments {
  readonly port: number;
  readonly configs: readonly RunConfig[];
}

const { port, configs }: FunctionsArguments = JSON.parse(process.argv[2] ?? "");
const { MGRPO_TABLE: table = "", MGRPO_BUCKET: bucket = "" } = process.env;
const store = openAwsStore({ table, bucket });
const functions = composeFunctions(store);
const handlers = cloudHandlers(functions, (line) => process.stderr.write(`${line}\n`));

for (const config of configs) await functions.startRun(await prepareRelay(store.objects, config));

createServer((request, response) => {
  textOf(request)
    .then((text) => (request.url === "/tick" ? handlers.tick() : handlers.objectCreated(JSON.parse(text))))
    .then(
      () => response.end(),
      () => response.writeHead(500).end(),
    );
}).listen(port, "127.0.0.1");

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return text;
}
