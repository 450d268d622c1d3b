/** @file What an MCP server's process writes to standard error: the last line is often the only clue to why it ended. */
import { Readable } from "node:stream";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";

const KEPT_CHARACTERS = 10_000;

/**
 * Reads all output and keeps its end. The returned function gives that end, without a first line that was cut: it may begin inside a
 * secret, which could not be redacted.
 */
export function keepErrorOutput(transport: Transport): () => string {
  const stream = transport instanceof StdioClientTransport ? transport.stderr : null;
  let end = "";
  if (stream instanceof Readable) {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      end = (end + text).slice(-KEPT_CHARACTERS);
    });
  }
  return () => (end.length < KEPT_CHARACTERS ? end : end.slice(end.search(/\n|$/)));
}

/** The last line that may be a reason: not a stack frame, a bracket, or the version line that Node.js prints last. */
export function lastReason(output: string): string | undefined {
  return output.split("\n").findLast((line) => /^\S.*\p{L}/u.test(line) && !line.startsWith("Node.js v"));
}
