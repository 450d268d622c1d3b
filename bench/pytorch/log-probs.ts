/** @file The counterpart of open.py: this program's tokens of a question and their log-probs under a checkpoint, as one JSON line. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";

const [folder = "", question = ""] = process.argv.slice(2);
const files = new Map(readdirSync(folder).map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))]));
const tokenizer = openTokenizer(files);
const tokens = tokenizer.encodeTemplate(tokenizer.render([{ role: "user", content: question }], [], true));
const options = { threads: 1, slots: 1, contextTokens: tokens.length, microBatchTokens: tokens.length };
const trainer = await compiledEngine.openTrainer(files, options);
const [logProbs = new Float32Array()] = await trainer.logProbs([tokens], 1);
await trainer.close();
console.log(JSON.stringify({ tokens, logProbs: [...logProbs] }));
