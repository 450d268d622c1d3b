/** @file The calls that the app in Python accepts: those that are signed, on time, and not received before. Skipped without Python. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openCallSigner, type SignedCall } from "../../gpu-workers/invocations/signature.ts";

const SECRET = "secret of at least sixteen characters";
const BODY = JSON.stringify({ question: {}, agents: {} });
const APP = join(import.meta.dirname, "../../examples/python-team");

/** The app's server on a free port, with an app that answers at once: the `openai` package is not needed. */
const SERVER = `
import sys, types
sys.modules["openai"] = types.SimpleNamespace(OpenAI=None)
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import app
app.answer = lambda question, agents, worlds: "Peru"
server = app.ThreadingHTTPServer(("127.0.0.1", 0), app.Attempts)
server.worlds = {}
print(server.server_port, flush=True)
server.serve_forever()
`;

const hasPython = spawnSync("python3", ["--version"]).status === 0;
let server: ChildProcess;
let port: number;

beforeAll(async () => {
  if (!hasPython) return;
  const started = spawn("python3", ["-c", SERVER, APP], {
    env: { ...process.env, MGRPO_RUNNER_SECRET: SECRET },
    stdio: ["ignore", "pipe", "inherit"],
  });
  server = started;
  const [line] = await once(createInterface(started.stdout), "line");
  port = Number(line);
});

afterAll(() => server?.kill());

const sign = (at = Date.now()) =>
  openCallSigner(SECRET, { storeTime: async () => at })({ method: "POST", path: "/", body: BODY });

interface Reply {
  readonly status: number | undefined;
  readonly text: string;
  header(name: string): string | null;
}

async function post(headers: SignedCall["headers"], body = BODY): Promise<Reply> {
  const call = request({ host: "127.0.0.1", port, method: "POST", headers: { ...headers } });
  call.end(body);
  const [response] = await once(call, "response");
  return { status: response.statusCode, text: await text(response), header: (name) => response.headers[name] ?? null };
}

test.skipIf(!hasPython)("a signed call is answered, and the answer is signed for it", async () => {
  const signed = await sign();
  const { status, text, header } = await post(signed.headers);
  expect([status, JSON.parse(text)]).toEqual([200, { answer: "Peru" }]);
  expect(signed.isAuthenticReport(text, header)).toBe(true);
});

test.skipIf(!hasPython)("of copies of a call that arrive at once, one is accepted", async () => {
  const { headers } = await sign();
  const replies = await Promise.all(Array.from({ length: 8 }, () => post(headers)));
  expect(replies.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
});

test.skipIf(!hasPython)("a call is refused if its body or signature does not match, or its time is off", async () => {
  const { headers } = await sign();
  const statusOf = async (changed: SignedCall["headers"], body?: string) => (await post(changed, body)).status;
  expect(await statusOf(headers, JSON.stringify({ question: {}, agents: { main: {} } }))).toBe(401);
  expect(await statusOf({ ...headers, "x-mgrpo-signature": "é" })).toBe(401);
  expect(await statusOf({})).toBe(401);
  expect(await statusOf((await sign(Date.now() - 6 * 60_000)).headers)).toBe(401);
  expect(await statusOf((await sign(Date.now() + 6 * 60_000)).headers)).toBe(401);
  expect(await statusOf(headers)).toBe(200);
});
