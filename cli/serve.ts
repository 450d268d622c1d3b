/**
 * @file `mgrpo serve`: a trained team behind the APIs of OpenAI (chat completions, responses) and Anthropic (messages). An app keeps its code: it
 * changes only the base URL and the key, and names an agent as the model. Ends on SIGINT or SIGTERM.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { hostname } from "node:os";
import colors from "picocolors";
import { isWildcardAddress } from "../core/contracts/http-url.ts";
import { MgrpoError } from "../core/errors.ts";
import { type ChatTeam, chatApp } from "../gpu-workers/gateway/api/app.ts";
import { chatCompletions } from "../gpu-workers/gateway/api/chat-reply.ts";
import { ApiError } from "../gpu-workers/gateway/api/errors.ts";
import { messages } from "../gpu-workers/gateway/api/messages-reply.ts";
import { statelessResponses } from "../gpu-workers/gateway/api/responses-reply.ts";
import { servedTeam } from "../gpu-workers/gateway/served-team.ts";
import { httpOrigin } from "../gpu-workers/invocations/network.ts";
import { serveApp } from "../gpu-workers/invocations/server.ts";
import { createLog } from "../gpu-workers/log.ts";
import { watchForStop } from "./local/stop.ts";
import { isSameKey } from "./same-key.ts";
import { planServing, refuseTemperature } from "./serve/config.ts";
import { openServedAgents } from "./serve/open-agents.ts";

export interface TeamServeOptions {
  readonly port: number;
  readonly host: string;
  readonly temperature?: number;
  readonly set: readonly string[];
}

/** Nothing is kept between requests. */
const SERVED_API = {
  dialects: [chatCompletions, statelessResponses, messages],
  honored: ["temperature", "top_p"],
  why: "the server does not support them",
  logsRefusals: false,
};
const KEY_VARIABLE = "MGRPO_SERVE_KEY";
/** At least 16 characters that an Authorization header can carry. */
const KEY_PATTERN = /^[\x21-\x7e]{16,}$/;

export async function serveTeam(target: string, options: TeamServeOptions): Promise<void> {
  const key = keyFor(options.host, process.env[KEY_VARIABLE] ?? "");
  const { config, notes } = await planServing(target, options.set);
  refuseTemperature(config, options.temperature);
  for (const note of notes) console.error(note);
  const stop = watchForStop();
  try {
    const opened = await openServedAgents(config);
    try {
      const team = servedTeam(opened.agents, config.temperature, options.temperature);
      if (!stop.signal.aborted) await serveUntilStopped(team, options, key, stop.signal);
    } finally {
      await opened.close();
    }
  } finally {
    stop.dispose();
  }
}

async function serveUntilStopped(
  team: ChatTeam,
  { host, port }: TeamServeOptions,
  key: Key,
  signal: AbortSignal,
): Promise<void> {
  const teamOf = (keys: readonly string[]) => {
    if (keys.some((candidate) => isSameKey(candidate, key.text))) return team;
    const message = `missing or wrong key: use the one that the server printed, or the one in ${KEY_VARIABLE}`;
    throw new ApiError(401, "invalid_api_key", message);
  };
  const log = createLog((line) => process.stderr.write(line));
  const server = await serveApp(chatApp("", { teamOf, ...SERVED_API }, log), host, port);
  try {
    printAddress(`${httpOrigin(reachable(host), server.port)}/v1`, team.agents, key);
    if (!signal.aborted) await once(signal, "abort");
  } finally {
    await server.close();
  }
}

/** A server on all addresses is reached by this machine's name. */
const reachable = (host: string): string => (isWildcardAddress(host) ? hostname() : host);

interface Key {
  readonly text: string;
  /** Whether the user set it: then it is not printed. */
  readonly isGiven: boolean;
}

/** The user's key, or else a random one, which is allowed only on a loopback address. */
function keyFor(host: string, given: string): Key {
  if (KEY_PATTERN.test(given)) return { text: given, isGiven: true };
  if (given !== "") {
    throw new MgrpoError("config-invalid", `${KEY_VARIABLE}: set it to at least 16 ASCII characters without spaces`);
  }
  if (isLoopback(host)) return { text: `mgrpo-serve-${randomBytes(18).toString("base64url")}`, isGiven: false };
  throw new MgrpoError(
    "config-invalid",
    `--host ${host} serves other machines: set ${KEY_VARIABLE} to a secret of at least 16 characters, and put TLS in front`,
  );
}

const isLoopback = (host: string) => host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host);

function printAddress(baseUrl: string, models: readonly string[], { text, isGiven }: Key): void {
  const key = isGiven ? `$${KEY_VARIABLE}` : text;
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "serving", baseURL: baseUrl, models, ...(isGiven ? {} : { apiKey: text }) }));
    return;
  }
  const body = JSON.stringify({ model: models[0], messages: [{ role: "user", content: "Hello" }] });
  console.log(`  base URL  ${baseUrl}`);
  console.log(`  API key   ${isGiven ? `the one in ${KEY_VARIABLE}` : text}`);
  console.log(`  models    ${models.join(", ")}\n`);
  console.log(
    `curl ${baseUrl}/chat/completions -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -d '${body}'`,
  );
  console.log(colors.dim("\n  Press Ctrl-C to stop"));
}
