/** @file What a traced graph depends on in a policy: the configs of the model and its adapter, never the weights. */
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { adapterLayout } from "../checkpoint/adapter.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { type Parameter, parameterLayout } from "../checkpoint/parameters.ts";

export interface PolicyShape {
  readonly config: ModelConfig;
  /** Null: no adapter. */
  readonly lora: LoraConfig | null;
}

export function shapeParameters({ config, lora }: PolicyShape): Parameter[] {
  const { parameters } = parameterLayout(config);
  return lora ? [...parameters, ...adapterLayout(config, lora).parameters] : [...parameters];
}
