/**
 * @file `mgrpo/tinker`: a typed client of the Tinker training API, without the rest of this package (docs/tinker.md). Log-probs are
 * natural logarithms, one per token. Calls reject with `MgrpoError`: `endpoint-unavailable` when a retry may help,
 * `endpoint-refused` when it cannot, `config-invalid` when no header can carry the API key. A sample whose signal aborts rejects with the
 * signal's reason or an AbortError.
 */
export {
  type BeforeCall,
  openTinkerClient,
  type TinkerClient,
  type TinkerModel,
  type TinkerSession,
} from "../engine/tinker/client/client.ts";
export type {
  AdamParams,
  Capabilities,
  Datum,
  LossFunction,
  ModelInput,
  OptimizerResult,
  SampledModel,
  SampleResult,
  SamplingParams,
  TensorData,
  TinkerLora,
} from "../engine/tinker/client/messages.ts";
export type { TransportOptions } from "../engine/tinker/client/transport.ts";
