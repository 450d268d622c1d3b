/** @file `npm run docs`: writes the generated files of docs/. test/docs.test.ts fails when they are out of date. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { generatedDocs } from "./generated.ts";

for (const [name, text] of generatedDocs()) writeFileSync(join(import.meta.dirname, "..", name), text);
