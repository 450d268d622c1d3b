/** @file An optimizer step that the server computes in part, and one that is refused before anything is sent. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../../core/contracts/agent-config.ts";
import type { Trainer } from "../../../core/ports.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { SKYRL_JAX } from "../../fakes/tinker-models.ts";
import { OPTIONS } from "../tiny.ts";
import { tinyTinker } from "./tiny-tinker.ts";

const MODEL = { engine: bigramEngine, files: bigramFiles(30), options: OPTIONS };

test.each(["forward_backward", "optim_step"])(
  "after a step whose last %s fails, every call is refused until a version is loaded",
  async (path) => {
    const { server, connect, files: base } = tinyTinker({ ...MODEL, rules: SKYRL_JAX });
    const options = { ...OPTIONS, microBatchTokens: 3 };
    const trainer = await connect({ retrySeconds: 0 }).openTrainer(base, options);
    const undisturbed = await connect().openTrainer(base, options);
    // Two requests, one for each sequence.
    const batch = [
      [1, 2, 3],
      [6, 7, 8],
    ].map((tokens) => ({ tokens, weights_T: new Float32Array(3).fill(-1) }));
    const adam = OptimizerConfig.parse({ maxGradientNorm: null });
    const gradient = (of: Trainer) => of.forwardBackward(batch, { kind: "linear" }, 1);
    const step = () => trainer.optimizerStep(adam);
    await gradient(trainer);
    const failing = path === "optim_step" ? 1 : 2;
    let calls = 0;
    server.injectFaults((call) => (call.path === path && ++calls === failing ? "refused" : undefined));
    await expect(step()).rejects.toMatchObject({ code: "endpoint-unavailable", retryable: true });
    const later = [step, () => gradient(trainer), () => trainer.logProbs([[1, 2]], 1), () => trainer.save()];
    for (const call of later) await expect(call()).rejects.toMatchObject({ code: "replay-failed" });
    await trainer.load(base);
    for (const one of [trainer, undisturbed]) {
      await gradient(one);
      await one.optimizerStep(adam);
    }
    expect(await trainer.logProbs([[1, 2, 3]], 1)).toEqual(await undisturbed.logProbs([[1, 2, 3]], 1));
    await Promise.all([trainer.close(), undisturbed.close()]);
  },
);

test("a gradient that is not finite is refused and dropped: the next batch is trained on", async () => {
  const { connect, files: base } = tinyTinker({ ...MODEL, rules: SKYRL_JAX });
  const [trainer, undisturbed] = [
    await connect().openTrainer(base, OPTIONS),
    await connect().openTrainer(base, OPTIONS),
  ];
  const adam = OptimizerConfig.parse({ maxGradientNorm: null });
  const batch = (weight: number) => [{ tokens: [1, 2, 3], weights_T: new Float32Array(3).fill(weight) }];
  await trainer.forwardBackward(batch(Number.NaN), { kind: "linear" }, 1);
  await expect(trainer.optimizerStep(adam)).rejects.toMatchObject({ code: "run-halted" });
  for (const one of [trainer, undisturbed]) {
    await one.forwardBackward(batch(-1), { kind: "linear" }, 1);
    await one.optimizerStep(adam);
  }
  expect(await trainer.logProbs([[1, 2, 3]], 1)).toEqual(await undisturbed.logProbs([[1, 2, 3]], 1));
  await Promise.all([trainer.close(), undisturbed.close()]);
});
