/** @file What an MCP server's process writes on standard error: its last line is often the only reason for its end. */
import { Readable } from "node:stream";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";

const KEPT_CHARACTERS = 10_000;

/** Reads all of it and keeps the end. Returns a function for whole lines of that end: half of a secret would not be redacted. */
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

/** The last line that may be a reason: no frame of a stack, no bracket, and not the version with which Node.js ends. */
export function lastReason(output: string): string | undefined {
  return output.split("\n").findLast((line) => /^\S.*\p{L}/u.test(line) && !line.startsWith("Node.js v"));
}
