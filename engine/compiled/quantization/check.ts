/** @file Refuses what cannot be quantized, before anything is computed. */
import { LARGE_FILE_BYTES } from "../../../core/checkpoint-source.ts";
import type { LoraConfig } from "../../../core/contracts/lora.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { EngineOptions } from "../../../core/ports.ts";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { linearParameters } from "../../checkpoint/parameters.ts";
import { BLOCK } from "./blocks.ts";

const MAPPED_MIB = LARGE_FILE_BYTES / 2 ** 20;

/** @throws MgrpoError `config-invalid` if quantization is on and the base cannot be quantized. */
export function checkQuantization(
  config: ModelConfig,
  lora: LoraConfig | null,
  { quantization = "none", provider = "cpu" }: EngineOptions,
  { mapped }: { readonly mapped: boolean },
): void {
  if (quantization === "none") return;
  const refuse = (fault: string) => {
    throw new MgrpoError("config-invalid", `engine.quantization ${quantization}: ${fault}`);
  };
  if (!lora) refuse("only the base of an adapter is quantized: set lora, or remove engine.quantization");
  if (provider === "webgpu" || provider === "cuda")
    refuse(`it runs on the CPU only, not on ${provider}: remove the setting`);
  if (!mapped)
    refuse(
      `the base is not memory-mapped, which requires aligned tensors in files above ${MAPPED_MIB} MiB on disk: remove the setting`,
    );
  const indivisible = linearParameters(config).find(({ shape }) => (shape[1] ?? 0) % BLOCK !== 0);
  if (indivisible)
    refuse(
      `'${indivisible.name}' has ${indivisible.shape[1]} inputs, not a multiple of the block size, ${BLOCK}: remove the setting`,
    );
}
