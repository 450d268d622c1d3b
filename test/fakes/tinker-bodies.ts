/** @file The request bodies of the fake Tinker server, as SkyRL validates them; `retrieve_future`'s is not validated. */
import * as z from "zod";
import { AdamParams, ModelInput, PassInput, SamplingParams, TinkerLora } from "../../engine/tinker/client/messages.ts";

const NAME = z
  .string()
  .regex(/^[a-zA-Z0-9_-]+$/)
  .max(255);
const Numbered = { model_id: z.string(), seq_id: z.int().nullish() };
export const Bodies = {
  create_session: z.object({ tags: z.array(z.string()), sdk_version: z.string() }),
  session_heartbeat: z.object({ session_id: z.string() }),
  create_model: z.object({ session_id: z.string(), base_model: z.string(), lora_config: TinkerLora }),
  unload_model: z.object({ model_id: z.string() }),
  get_info: z.object({ model_id: z.string() }),
  forward: z.object({ ...Numbered, forward_input: PassInput }),
  forward_backward: z.object({ ...Numbered, forward_backward_input: PassInput }),
  optim_step: z.object({ ...Numbered, adam_params: AdamParams }),
  save_weights: z.object({ ...Numbered, path: NAME }),
  save_weights_for_sampler: z.object({ ...Numbered, path: NAME }),
  load_weights: z.object({ ...Numbered, path: z.string(), optimizer: z.boolean() }),
  asample: z
    .object({
      prompt: ModelInput,
      num_samples: z.int().default(1),
      sampling_params: SamplingParams.extend({
        temperature: z.number().default(1),
        top_k: z.int().default(-1),
        top_p: z.number().default(1),
        // Strings are accepted, but never match a token.
        stop: z.array(z.union([z.int(), z.string().transform(() => -1)])).optional(),
      }),
      base_model: z.string().nullish(),
      model_path: z.string().nullish(),
    })
    .refine(({ base_model, model_path }) => (base_model == null) !== (model_path == null), {
      message:
        "Value error, When 'sampling_session_id' is not provided, exactly one of 'base_model' or 'model_path' must be provided",
    }),
};

export type Route = keyof typeof Bodies;
export type Body<N extends Route> = z.infer<(typeof Bodies)[N]>;
