/**
 * @file gateway.*: CPU milliseconds per turn of an agent whose policy responds instantly, with 64 conversations in flight: `native`, the
 * token backend of this program's own loop; `session`, an app's requests without HTTP; `request`, the same over HTTP, the client's share included.
 */
import type { TurnRequest } from "../core/contracts/app-chat.ts";
import { AgentSessions } from "../gpu-workers/gateway/agent-sessions.ts";
import { tokenBackend } from "../gpu-workers/rollouts/token-backend.ts";
import { addressOf, openGateway, openInstantAgent, rolloutPrompt, sampling } from "./instant-agent.ts";
import { cpuSecondsOf, medianOf, print } from "./measurement.ts";

const CONVERSATIONS = 64;
const TURNS = 4;
const ROUNDS = 8;
const RESPONSE = "Currency: Qatari riyal  Borders: Burkina Faso, Cuba";
const { agent, config, tokenizer, sampler } = openInstantAgent(TURNS);

const size = { conversations: CONVERSATIONS, turns: TURNS };
const native = await cpuMilliseconds(nativeConversation);
const session = await cpuMilliseconds(sessionConversation);
const request = await overHttp();
print("gateway.native", native, "CPU ms/turn", size);
print("gateway.session", session, "CPU ms/turn", size);
print("gateway.request", request, "CPU ms/turn", size);

async function nativeConversation(rollout: number): Promise<void> {
  const shared = {
    agent: "main",
    version: 0,
    config,
    tools: new Map(),
    sampling,
    streamName: (turn: number) => [1, "sample", 0, 0, rollout, "main", "asked", "turn", turn],
    sequence: `native/${rollout}`,
  };
  const backend = tokenBackend(shared, tokenizer, sampler);
  backend.start(rolloutPrompt(rollout));
  for (let turn = 0; turn < TURNS; turn++) {
    await backend.generate(turn, config.limits.turnTokens, new AbortController().signal);
    if (turn + 1 < TURNS) backend.observe([RESPONSE]);
  }
  backend.trajectory();
}

async function sessionConversation(rollout: number): Promise<void> {
  const sessions = new AgentSessions(agent, [1, "sample"], 1, 0);
  const id = String(rollout).padStart(22, "0");
  const address = addressOf(rollout);
  const open = { id, run: "bench", address, questionId: "q", agent: "main", version: 0, sampling };
  const messages: TurnRequest["messages"] = [{ role: "user", text: rolloutPrompt(rollout) }];
  const delivered: string[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const turnRequest = { messages: [...messages], tools: [], mayCall: true, stopStrings: [], variant: "" };
    const reply = await sessions.turn(open, turnRequest, new AbortController().signal);
    delivered.push(reply.exchange);
    messages.push({ role: "assistant", text: reply.text, calls: [] }, { role: "user", text: RESPONSE });
  }
  sessions.end(id, delivered);
}

async function overHttp(): Promise<number> {
  const gateway = await openGateway(agent, 1);
  try {
    return await cpuMilliseconds(async (rollout) => {
      const { attempt, key, base } = gateway.open(rollout);
      await appConversation(key, base, rollout);
      await attempt.settled();
      await attempt.outcome({ answer: "x" }, new AbortController().signal);
      gateway.attempts.close(attempt);
    });
  } finally {
    await gateway.close();
  }
}

async function appConversation(key: string, base: string, rollout: number): Promise<void> {
  const messages = [{ role: "user", content: rolloutPrompt(rollout) }];
  for (let turn = 0; turn < TURNS; turn++) {
    const response = await fetch(`${base}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "main", messages }),
    });
    if (!response.ok) throw new Error(`the gateway responded with ${response.status}: ${await response.text()}`);
    const { choices } = (await response.json()) as { choices: { message: { role: string; content: string } }[] };
    const message = choices[0]?.message;
    if (!message) throw new Error("the gateway's response has no message");
    messages.push(message, { role: "user", content: RESPONSE });
  }
}

/** CPU milliseconds per turn: the median over the rounds, in each of which all conversations are in flight at once. */
async function cpuMilliseconds(conversation: (rollout: number) => Promise<void>): Promise<number> {
  const seconds = await medianOf(ROUNDS, (round) =>
    cpuSecondsOf(() =>
      Promise.all(Array.from({ length: CONVERSATIONS }, (_, i) => conversation(round * CONVERSATIONS + i))),
    ),
  );
  return (1000 * seconds) / (CONVERSATIONS * TURNS);
}
