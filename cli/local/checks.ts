/**
 * @file The checks of `mgrpo doctor` beyond those of the host: the embedded cloud, engines and providers on a tiny model, whether
 * tfjs-node-gpu is installed, and endpoints in the environment.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../core/errors.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { TINY_OPTIONS, tinyModel } from "../../engine/compiled/provider-check.ts";
import { GPU_PACKAGE, INSTALL_GPU_PACKAGE } from "../../engine/eager/backend.ts";
import { openEngine } from "../../engine/index.ts";
import { withUserCommand } from "../terminal/fail.ts";
import { makeTemporary } from "../writable-folder.ts";
import { openCloudStore, openEmbeddedCloud } from "./embedded-cloud.ts";

export interface Check {
  readonly name: string;
  /** `missing`: a default run works without it. */
  readonly state: "ok" | "missing" | "broken";
  readonly found: string;
  /** What to do. */
  readonly advice?: string;
}

const ENDPOINT_VARIABLES = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3"];
const ENDPOINT_TIMEOUT_MILLISECONDS = 3000;

export async function checkEmbeddedCloud(): Promise<Check[]> {
  try {
    return [{ name: "embedded cloud", state: "ok", found: await timed(tryEmbeddedCloud) }];
  } catch (error) {
    return [{ name: "embedded cloud", state: "broken", found: messageOf(error) }];
  }
}

/** Starts the cloud in an empty folder, commits an object and reads it back. */
async function tryEmbeddedCloud(): Promise<string> {
  const directory = makeTemporary("mgrpo-doctor-");
  try {
    const cloud = await openEmbeddedCloud(join(directory, "cloud"), join(directory, "log"));
    const store = openCloudStore(cloud.environment);
    try {
      await store.objects.commit("doctor", new Uint8Array([1]));
      await store.objects.get("doctor");
    } finally {
      store.close();
      await cloud.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return "DynamoDB and S3 on 127.0.0.1";
}

export async function checkEngines(): Promise<Check[]> {
  return [
    await checkEngine("compiled"),
    await checkEngine("eager"),
    await checkProvider("webgpu"),
    await checkProvider("cuda"),
    checkNodeGpu(),
  ];
}

/** Checks a provider of the compiled engine. */
export async function checkProvider(provider: "webgpu" | "cuda"): Promise<Check> {
  const name = `provider ${provider}`;
  try {
    const found = await timed(() => tryProvider(provider));
    return { name, state: "ok", found };
  } catch (error) {
    return { name, state: "missing", found: reasonOf(error) };
  }
}

async function tryProvider(provider: "webgpu" | "cuda"): Promise<string | undefined> {
  const { computesOn } = openEngine("compiled");
  const found = await computesOn?.({ ...TINY_OPTIONS, provider });
  if (provider !== "cuda") return found;
  const bf16 = computesOn?.({ ...TINY_OPTIONS, provider, precision: "bf16" });
  return `${found}; ${await bf16?.catch((error: unknown) => `no bf16: ${reasonOf(error)}`)}`;
}

/** The message without the setting that it starts with and those that it recommends at the end: they apply only to a run. */
const reasonOf = (error: unknown): string => messageOf(error).replace(/^engine\.provider \w+: |, or set .*$/g, "");

/** Computes log-probs of a short sequence under a model of a few thousand parameters. */
async function checkEngine(policy: string): Promise<Check> {
  try {
    const found = await timed(() => tryEngine(openEngine(policy)));
    return { name: `engine ${policy}`, state: "ok", found };
  } catch (error) {
    const isCompiled = policy === "compiled";
    const platforms = "; onnxruntime-node needs Linux or Windows on x64 or arm64, or macOS on arm64";
    return {
      name: `engine ${policy}`,
      state: isCompiled ? "broken" : "missing",
      found: messageOf(error),
      advice: `npm ci in a fresh checkout${isCompiled ? platforms : ""}`,
    };
  }
}

async function tryEngine(engine: PolicyEngine): Promise<string> {
  const trainer = await engine.openTrainer(tinyModel(), TINY_OPTIONS);
  try {
    await trainer.logProbs([[1, 2, 3, 4]], 1);
    return "scored a tiny model";
  } finally {
    await trainer.close();
  }
}

function checkNodeGpu(): Check {
  const name = "tfjs-node-gpu";
  const advice = `optional, for policy eager-gpu on CUDA 11.2: ${INSTALL_GPU_PACKAGE}`;
  try {
    return { name, state: "ok", found: import.meta.resolve(GPU_PACKAGE) };
  } catch {
    return { name, state: "missing", found: "not installed", advice };
  }
}

export async function checkEndpoints(): Promise<Check[]> {
  // An empty variable counts as unset, as in the clients.
  const set = ENDPOINT_VARIABLES.flatMap((name) => {
    const url = process.env[name];
    return url ? [{ name, url }] : [];
  });
  if (set.length === 0) {
    return [{ name: "endpoints", state: "ok", found: "none in the environment: a local run needs none" }];
  }
  return Promise.all(
    set.map(async ({ name, url }): Promise<Check> => {
      try {
        const response = await fetch(url, { signal: AbortSignal.timeout(ENDPOINT_TIMEOUT_MILLISECONDS) });
        return { name, state: "ok", found: `${url} responds (HTTP ${response.status})` };
      } catch (error) {
        const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
        return {
          name,
          state: "missing",
          found: `${url}: ${messageOf(cause)}`,
          advice: `start the store there, or unset ${name}`,
        };
      }
    }),
  );
}

async function timed(work: () => Promise<string | undefined>): Promise<string> {
  const started = performance.now();
  const found = await work();
  return `${found}, ${Math.round(performance.now() - started)} ms`;
}

function messageOf(error: unknown): string {
  return withUserCommand(errorText(error).split("\n", 1)[0] ?? "");
}
