/** @file The progress of a download from the hub: one live line on a terminal, a line per file elsewhere. */
import { expect, test } from "vitest";
import { terminalReporter } from "../../cli/local/hub-models.ts";

/** A reporter, and what it writes. */
function reporterTo(isTTY: boolean) {
  const written: string[] = [];
  const stream = { isTTY, write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream;
  return { reporter: terminalReporter(stream), text: () => written.join("") };
}

const at = (file: string, bytes: number, totalBytes: number) => ({ model: "hf:owner/tiny", file, bytes, totalBytes });
const shown = (progress: string) => `\r\u001B[Khf:owner/tiny  ${progress}`;

test("closing the reporter ends its live line once, so that a failure is printed on a line of its own", () => {
  const { reporter, text } = reporterTo(true);
  reporter.progress(at("model.safetensors", 1e6, 3e6));
  reporter.close();
  reporter.close();
  expect(text()).toBe(`${shown("1.0 of 3.0 MB  model.safetensors")}\n`);
});

test("the small files and the weights share one live line", () => {
  const { reporter, text } = reporterTo(true);
  reporter.progress(at("config.json", 1e6, 1e6));
  reporter.progress(at("model.safetensors", 3e6, 3e6));
  reporter.close();
  const lines = ["1.0 of 1.0 MB  config.json", "3.0 of 3.0 MB  model.safetensors"].map(shown);
  expect(text()).toBe(`${lines.join("")}\n`);
});

test("without a terminal, a line is printed when a file starts, and nothing on closing", () => {
  const { reporter, text } = reporterTo(false);
  for (const bytes of [1e6, 2e6]) reporter.progress(at("model.safetensors", bytes, 3e6));
  reporter.close();
  expect(text()).toBe("hf:owner/tiny  1.0 of 3.0 MB  model.safetensors\n");
});
