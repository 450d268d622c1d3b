/**
 * @file Counts the questions of xbench-DeepSearch that the leakage guard finds in their own text, and in another question's text, without printing
 * any: docs/tools.md.
 */
import { basename } from "node:path";
import { loadXbench } from "../../../../adapters/benchmarks/xbench.ts";
import { leakageGuard } from "../../../../adapters/tools/web/visit/leakage.ts";
import { decryptQuestions } from "../../../../core/contracts/encryption.ts";
import { originalWording } from "../../../../core/contracts/question.ts";

const files = process.argv.slice(2);
if (files.length === 0) throw new Error("usage: count-leak-checked.ts <DeepSearch-….csv>…");
const guard = leakageGuard([]);
for (const file of files) {
  const texts = decryptQuestions(loadXbench(file)).questions.map(originalWording);
  const found = texts.filter((text) => guard.leaksQuestion(`1. ${text} 2.`, text));
  const inOthers = texts.filter((text) => texts.some((other) => other !== text && guard.leaksQuestion(other, text)));
  const shortest = Math.min(...texts.map((text) => [...text].length));
  const size = `${texts.length} questions, the shortest of ${shortest} characters`;
  console.log(`${basename(file)}: ${size}; ${found.length} found in their own text, ${inOthers.length} in another's`);
}
