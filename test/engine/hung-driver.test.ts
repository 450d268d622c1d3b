/** @file A GPU whose driver hangs or crashes while it is checked is refused. */
import { afterEach, expect, test, vi } from "vitest";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { OPTIONS } from "./tiny.ts";

const FAULTY = new URL("../fixtures/faulty-driver.mjs", import.meta.url).href;

const checkOf = (driver: "hang" | "crash") => {
  Object.assign(process.env, { NODE_OPTIONS: `--import=${FAULTY}`, MGRPO_TEST_DRIVER: driver });
  return expect(compiledEngine.computesOn?.({ ...OPTIONS, provider: "webgpu" })).rejects;
};

afterEach(() => {
  vi.useRealTimers();
  for (const name of ["NODE_OPTIONS", "MGRPO_TEST_DRIVER"]) delete process.env[name];
});

test("a driver that hangs is refused after two minutes", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const rejects = checkOf("hang").toMatchObject({
    code: "engine-unsupported",
    message:
      "engine.provider webgpu: on this GPU and driver its check did not end within 120 s: update the driver, or set engine.provider to cpu",
  });
  while (vi.getTimerCount() < 1) await new Promise(setImmediate);
  vi.advanceTimersByTime(120_000);
  await rejects;
});

test("a driver that crashes is refused, and this process keeps running", async () => {
  await checkOf("crash").toMatchObject({
    code: "engine-unsupported",
    message:
      "engine.provider webgpu: on this GPU and driver its check crashed (SIGSEGV): update the driver, or set engine.provider to cpu",
  });
});
