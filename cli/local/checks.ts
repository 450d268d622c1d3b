/**
 * @file The parts of `mgrpo doctor` that try things: the embedded cloud, every engine on a tiny model, every endpoint in the environment.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listSupportedBackends } from "onnxruntime-node";
import type { PolicyEngine } from "../../core/ports.ts";
import { writeModelConfig } from "../../gpu-workers/engines/checkpoint/config.ts";
import { initializeWeights } from "../../gpu-workers/engines/checkpoint/initialize.ts";
import { parameterLayout } from "../../gpu-workers/engines/checkpoint/parameters.ts";
import { writeModel } from "../../gpu-workers/engines/checkpoint/weights.ts";
import { openEngine } from "../../gpu-workers/engines/registry.ts";
import { openCloudStore, openSession } from "./session.ts";

/** `missing`: a run on this machine works without it. */
export interface Check {
  readonly name: string;
  readonly state: "ok" | "missing" | "broken";
  readonly found: string;
  /** What to do about it. */
  readonly advice?: string;
}

const ENDPOINTS = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3"];
const ENDPOINT_TIMEOUT_MILLISECONDS = 3000;
const TINY = {
  layers: 1,
  width: 16,
  heads: 2,
  kvHeads: 1,
  headWidth: 8,
  ffnWidth: 16,
  vocabulary: 32,
  ropeTheta: 10000,
  ropeScaling: null,
  epsilon: 1e-6,
  tied: true,
  queryKeyNorm: true,
  projectionBias: false,
};
const CONTEXT = 32;

/** Starts it in an empty folder, commits an object and reads it back. */
export async function checkLocalCloud(): Promise<Check[]> {
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-doctor-"));
  try {
    const found = await timed(async () => {
      const session = await openSession(join(directory, "cloud"), join(directory, "log"));
      const store = openCloudStore(session.environment);
      try {
        await store.objects.commit("doctor", new Uint8Array([1]));
        await store.objects.get("doctor");
      } finally {
        store.close();
        await session.close();
      }
    });
    return [{ name: "embedded cloud", state: "ok", found: `DynamoDB and S3 on 127.0.0.1, ${found}` }];
  } catch (error) {
    return [{ name: "embedded cloud", state: "broken", found: messageOf(error) }];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export async function checkEngines(): Promise<Check[]> {
  return [await checkEngine("compiled"), await checkEngine("eager"), checkProviders(), await checkNodeGpu()];
}

/** Those that came with the package work here if their hardware does. */
function checkProviders(): Check {
  const backends = listSupportedBackends();
  const names = (bundled: boolean) => backends.filter((one) => one.bundled === bundled).map(({ name }) => name);
  const absent = names(false);
  return {
    name: "execution providers",
    state: "ok",
    found: names(true).join(", "),
    ...(absent.length > 0 && {
      advice: `not installed: ${absent.join(", ")}; for CUDA 12: npm rebuild onnxruntime-node --onnxruntime-node-install=cuda12`,
    }),
  };
}

/** Log-probs of a short sequence under a model of a few hundred parameters. */
async function checkEngine(policy: string): Promise<Check> {
  try {
    const found = await timed(() => tryEngine(openEngine(policy)));
    return { name: `engine ${policy}`, state: "ok", found: `scored a tiny model, ${found}` };
  } catch (error) {
    const advice = "npm ci in a fresh checkout; onnxruntime-node needs Linux, macOS or Windows on x64 or arm64";
    return {
      name: `engine ${policy}`,
      state: policy === "compiled" ? "broken" : "missing",
      found: messageOf(error),
      advice,
    };
  }
}

async function tryEngine(engine: PolicyEngine): Promise<void> {
  const encoder = new TextEncoder();
  const files = new Map([
    ["config.json", encoder.encode(writeModelConfig(TINY, CONTEXT))],
    ["model.safetensors", writeModel(parameterLayout(TINY), initializeWeights(TINY, 1))],
  ]);
  const trainer = await engine.openTrainer(files, {
    threads: 1,
    slots: 2,
    contextTokens: CONTEXT,
    microBatchTokens: 64,
  });
  try {
    await trainer.logProbs([[1, 2, 3, 4]], 1);
  } finally {
    await trainer.close();
  }
}

async function checkNodeGpu(): Promise<Check> {
  const name = "tfjs-node-gpu";
  const advice = "optional, for the eager engine on CUDA 11: npm install @tensorflow/tfjs-node-gpu";
  try {
    return { name, state: "ok", found: import.meta.resolve("@tensorflow/tfjs-node-gpu") };
  } catch {
    return { name, state: "missing", found: "not installed", advice };
  }
}

export async function checkEndpoints(): Promise<Check[]> {
  const set = ENDPOINTS.flatMap((name) => (process.env[name] === undefined ? [] : [{ name, url: process.env[name] }]));
  if (set.length === 0) {
    return [{ name: "endpoints", state: "ok", found: "none in the environment: runs use the embedded cloud" }];
  }
  return Promise.all(
    set.map(async ({ name, url }): Promise<Check> => {
      try {
        const response = await fetch(url, { signal: AbortSignal.timeout(ENDPOINT_TIMEOUT_MILLISECONDS) });
        return { name, state: "ok", found: `${url} answers (HTTP ${response.status})` };
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

async function timed(work: () => Promise<unknown>): Promise<string> {
  const started = performance.now();
  await work();
  return `${Math.round(performance.now() - started)} ms`;
}

function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
