/** @file `mgrpo import`: converts a GGUF file into a Hugging Face folder. */
import { existsSync } from "node:fs";
import colors from "picocolors";
import { MgrpoError } from "../core/errors.ts";
import { importGguf } from "../engine/gguf/import.ts";
import { MGRPO, quotedPath } from "./terminal/name.ts";

export interface ModelImportOptions {
  readonly to: string;
  readonly dtype: "fp32" | "bf16";
}

/** Nothing is overwritten: rejects with `config-invalid` when the folder exists. */
export async function importModel(file: string, { to, dtype }: ModelImportOptions): Promise<void> {
  if (existsSync(to)) throw new MgrpoError("config-invalid", `${to} exists: name a folder that does not`);
  const { architecture, parameters, types } = await importGguf(file, to, dtype === "bf16" ? "BF16" : "F32");
  const millions = (parameters / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 });
  console.log(`${to}  ${architecture}, ${millions} M parameters, from ${types.join(", ")}, as ${dtype}`);
  console.log(colors.dim(`to see how much memory it needs: ${MGRPO} doctor --model ${quotedPath(to)}`));
}
