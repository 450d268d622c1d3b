/**
 * @file The cloud of a trial, in a process of its own: it sends its events and its scheduled ticks to the functions' process. Argument:
 * `CloudArguments` as JSON.
 */
import { startLocalCloud } from "../../../adapters/local-cloud/cloud.ts";

export interface CloudArguments {
  readonly directory: string;
  readonly ports: { readonly dynamo: number; readonly s3: number };
  /** The port that events and ticks are sent to. */
  readonly functions: number;
  readonly tickSeconds: number;
}

const { directory, ports, functions, tickSeconds }: CloudArguments = JSON.parse(process.argv[2] ?? "");

async function send(path: string, body: unknown): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${functions}${path}`, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`the functions answered ${response.status}`);
}

await startLocalCloud({
  directory,
  ports,
  tickSeconds,
  verifySignatures: false,
  handlers: { objectCreated: (event) => send("/event", event), tick: () => send("/tick", {}) },
  // Failures to deliver are expected here.
  report: () => {},
});
