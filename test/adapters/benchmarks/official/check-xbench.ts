/** @file Compares the published files of xbench-DeepSearch, as our loader decrypts them, with the hashes in expected.json of what its own code decrypts. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { loadXbench } from "../../../../adapters/benchmarks/xbench.ts";
import { decryptQuestions } from "../../../../core/contracts/encryption.ts";

const files = process.argv.slice(2);
if (files.length === 0) throw new Error("usage: check-xbench.ts <DeepSearch-….csv>…");
const { xbench } = JSON.parse(readFileSync(join(import.meta.dirname, "expected.json"), "utf8")) as {
  xbench: { published: Record<string, string> };
};
for (const file of files) {
  const { questions } = decryptQuestions(loadXbench(file));
  const rows = questions.map(({ id, prompt, answer }) => [id.replace(/^.*:/, ""), prompt, answer]);
  const isSame = createHash("sha256").update(JSON.stringify(rows)).digest("hex") === xbench.published[basename(file)];
  console.log(`${basename(file)}: ${rows.length} rows, ${isSame ? "the same" : "not the same"} as by its own code`);
  if (!isSame) process.exitCode = 1;
}
