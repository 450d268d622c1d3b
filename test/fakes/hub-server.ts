/** @file A small Hugging Face Hub: the requests that a download makes, with the failures of the real one. */
import { createHash } from "node:crypto";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { type HttpBindings, serve } from "@hono/node-server";
import { type Context, Hono } from "hono";

export interface FakeHub {
  readonly url: string;
  /** Of each request: `HEAD` if that is the method, the path, and the range if there is one. A probe's range (the first byte) is left out. */
  readonly requests: string[];
  /** Changed by tests between requests. */
  readonly faults: {
    /** Answers every request with this status and code. */
    status?: readonly [status: 401 | 403 | 404 | 429 | 503, code: string];
    /** Answers every request with this text and status 200, as a proxy may. */
    page?: string;
    /** Where `page` continues, if it is a list. */
    next?: string;
    /** Answers requests for a file, probes aside, with status 429. */
    limitsFiles?: boolean;
    /** One entry per request for a file, probes aside: the connection breaks after this many bytes; Infinity: it does not break. */
    breakAfter?: number[];
    /** Serves 6 MiB of zeros after the bytes of each file of 1 MB or more, probes aside. */
    appends?: boolean;
    /** Serves bytes other than those whose hashes it lists. */
    corrupts?: boolean;
  };
  /** Branches and tags -> commit. */
  readonly refs: Map<string, string>;
  close(): Promise<void>;
}

export const COMMIT = "0123456789abcdef0123456789abcdef01234567";
export const TOKEN = "hf_test";
/** The real hub's message. */
const INVALID_TOKEN = "Invalid credentials in Authorization header";

/** Serves the files of one gated repository, to requests with `TOKEN`. Files of weights are large files: the hub lists their SHA-256. */
export async function startHub(repository: string, files: ReadonlyMap<string, Uint8Array>): Promise<FakeHub> {
  const requests: string[] = [];
  const faults: FakeHub["faults"] = {};
  const refs = new Map([["main", COMMIT]]);
  const app = new Hono<{ Bindings: HttpBindings }>();
  const refuse = (context: Context, status: 401 | 403 | 404 | 429 | 503, code: string) =>
    context.json({ error: code }, status, { "X-Error-Code": code });
  app.use(async (context, next) => {
    const range = context.req.header("range");
    const head = context.req.method === "HEAD" ? "HEAD " : "";
    requests.push(`${head}${context.req.path}${range && range !== "bytes=0-0" ? ` ${range}` : ""}`);
    if (faults.next !== undefined) context.header("Link", `<${faults.next}>; rel="next"`);
    if (faults.page !== undefined) return context.html(faults.page);
    if (faults.status) return refuse(context, ...faults.status);
    const given = context.req.header("authorization");
    if (given !== undefined && given !== `Bearer ${TOKEN}`)
      return context.json({ error: INVALID_TOKEN }, 401, { "X-Error-Message": INVALID_TOKEN });
    if (!context.req.path.includes(repository)) return refuse(context, 401, "RepoNotFound");
    if (given === undefined) return refuse(context, 401, "GatedRepo");
    return next();
  });
  app.get("/api/models/:owner/:name/revision/:revision", (context) => {
    const sha = refs.get(context.req.param("revision"));
    return sha ? context.json({ id: repository, sha }) : refuse(context, 404, "RevisionNotFound");
  });
  app.get("/api/models/:owner/:name/tree/:revision", (context) => context.json(listing(files)));
  app.get("/:owner/:name/resolve/:revision/:path", (context) => {
    const path = context.req.param("path");
    const bytes = files.get(path);
    if (!bytes) return refuse(context, 404, "EntryNotFound");
    if (faults.limitsFiles && context.req.header("range") !== "bytes=0-0") return refuse(context, 429, "");
    const body = faults.corrupts ? bytes.map((byte) => byte ^ 1) : bytes;
    context.header("ETag", `"${nameOf(path, bytes)}"`);
    context.header("X-Repo-Commit", COMMIT);
    return respond(context, body, faults);
  });
  const server = serve({ fetch: app.fetch, overrideGlobalObjects: false, port: 0, hostname: "127.0.0.1" });
  await new Promise((resolve) => server.once("listening", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    faults,
    refs,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

const hashOf = (name: string, text: string | Uint8Array) => createHash(name).update(text).digest("hex");
const gitHashOf = (bytes: Uint8Array) =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
const isLarge = (path: string) => path.endsWith(".safetensors");
/** The name of the file's blob in the Hub's local cache. */
const nameOf = (path: string, bytes: Uint8Array) => (isLarge(path) ? hashOf("sha256", bytes) : gitHashOf(bytes));

function listing(files: ReadonlyMap<string, Uint8Array>): object[] {
  return [...files].map(([path, bytes]) => {
    const size = bytes.length;
    const lfs = isLarge(path) && { lfs: { oid: hashOf("sha256", bytes), size } };
    return { type: "file", path, size, oid: gitHashOf(bytes), ...lfs };
  });
}

function respond(context: Context<{ Bindings: HttpBindings }>, body: Uint8Array, faults: FakeHub["faults"]): Response {
  const range = context.req.header("range");
  const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
  const [start, end] = [Number(from), to === "" ? body.length : Math.min(Number(to) + 1, body.length)];
  const part = body.slice(start, end);
  const isProbe = range === "bytes=0-0";
  const appends = faults.appends === true && body.length >= 1e6 && !isProbe;
  if (!appends) context.header("Content-Length", String(part.length));
  context.header("Content-Range", `bytes ${start}-${end - 1}/${body.length}`);
  const limit = isProbe ? undefined : faults.breakAfter?.shift();
  const status = range === undefined ? 200 : 206;
  if (appends) return context.body(Readable.toWeb(Readable.from(withZeros(part))) as ReadableStream, status);
  if (limit === undefined || limit >= part.length) return context.body(part, status);
  const broken = new ReadableStream({
    start(controller) {
      controller.enqueue(part.slice(0, limit));
      setTimeout(() => context.env.outgoing.destroy(), 20);
    },
  });
  return context.body(broken, status);
}

function* withZeros(bytes: Uint8Array) {
  yield bytes;
  for (let i = 0; i < 96; i++) yield new Uint8Array(1 << 16);
}
