/** @file Every engine, run on the CPU, fulfills the contracts of Sampler and Trainer. */
import { describe } from "vitest";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { ADAPTER_FILE } from "../../engine/checkpoint/adapter.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { tinyTinker } from "../engine/tinker/tiny-tinker.ts";
import { LAYERED, OPTIONS, TINY, tinyAdapter, tinyCheckpoint, UNTIED } from "../engine/tiny.ts";
import { bigramEngine, bigramFiles } from "../fakes/bigram-engine.ts";
import { HOSTED } from "../fakes/tinker-models.ts";
import { samplerContract } from "./sampler.ts";
import { trainerContract } from "./trainer.ts";

const options = { ...OPTIONS, contextTokens: 90 };

describe("compiled engine", () => {
  const subject = { engine: compiledEngine, files: tinyCheckpoint(), options };
  describe("trainer", () => trainerContract(subject));
  describe("sampler", () => samplerContract(subject));
});

describe("compiled engine, untied head", () => {
  const subject = { engine: compiledEngine, files: tinyCheckpoint(UNTIED), options };
  describe("trainer", () => trainerContract(subject));
  describe("sampler", () => samplerContract(subject));
});

describe("compiled engine on two lanes", () => {
  const subject = { engine: compiledEngine, files: tinyCheckpoint(), options: { ...options, threads: 2 } };
  describe("trainer", () => trainerContract(subject));
  describe("sampler", () => samplerContract(subject));
});

describe("compiled engine, layer by layer", () => {
  const subject = { engine: compiledEngine, files: tinyCheckpoint(), options: { ...options, ...LAYERED } };
  describe("trainer", () => trainerContract(subject));
});

// The decode modes of GPUs, run on the CPU. In the mode `device`, a sequence that loses its slot is recomputed in other chunks, with other
// rounding.
describe.each(["block", "device"] as const)("compiled engine, decode mode of a GPU: %s", (mode) => {
  const engine: PolicyEngine = {
    ...compiledEngine,
    openSampler: (files, settings) => openCompiledSampler(files, { ...settings, provider: "cpu" }, mode),
  };
  describe("sampler", () =>
    samplerContract({ engine, files: tinyCheckpoint(), options, roundingDependsOnBatch: mode === "device" }));
});

// One layer, since it is slow; gradients.test.ts covers two.
describe("eager engine", () => {
  const subject = { engine: eagerEngine, files: tinyCheckpoint({ ...TINY, layers: 1 }), options };
  describe("trainer", () => trainerContract(subject));
  describe("sampler", () => samplerContract(subject));
});

describe("tinker engine", () => {
  const through = (server: Parameters<typeof tinyTinker>[0]) => ({
    ...tinyTinker(server),
    options,
    temperature: 1,
    seesGradients: false,
  });
  describe("trainer", () => trainerContract(through({ engine: compiledEngine, options, rules: HOSTED })));
  const files = bigramFiles(30);
  describe("sampler", () => samplerContract(through({ engine: bigramEngine, files, options, rules: HOSTED })));
});

// A frozen head limits how well the model can memorize.
describe("compiled engine with an adapter", () => {
  const subject = {
    engine: compiledEngine,
    files: tinyAdapter(),
    options,
    trained: ADAPTER_FILE,
    memorizedLogProb: -1.3,
  };
  describe("trainer", () => trainerContract(subject));
  describe("sampler", () => samplerContract(subject));
});

describe("compiled engine with a narrow adapter, untied head, two lanes", () => {
  const lora: LoraConfig = { rank: 1, alpha: 2, targets: ["v_proj", "down_proj"] };
  const subject = { engine: compiledEngine, files: tinyAdapter(UNTIED, lora), options: { ...options, threads: 2 } };
  describe("trainer", () => trainerContract({ ...subject, trained: ADAPTER_FILE, memorizedLogProb: -3.6 }));
  describe("sampler", () => samplerContract(subject));
});
