/**
 * @file A sampler on several lanes. A sequence stays on the lane that has its KV cache, and so do its branches. A new one goes to the lane
 * with the fewest sequences, or to a slightly busier one that already has its prompt: rollouts of a question share its prompt and often more.
 */
import type { SampleRequest, Sampler } from "../../../core/ports.ts";

/** With the new sequence, a lane that shares its prompt may have this many more sequences than the emptiest lane. */
const MAXIMUM_IMBALANCE = 8;

interface SamplerLane {
  readonly sampler: Sampler;
  /** Sequence -> prompt. */
  readonly prompts: Map<string, string>;
}

export function laneSampler(samplers: readonly Sampler[]): Sampler {
  const lanes = samplers.map((sampler): SamplerLane => ({ sampler, prompts: new Map() }));
  const laneBySequence = new Map<string, SamplerLane>();
  const laneOf = ({ sequence, tokens, branchOf }: SampleRequest): SamplerLane => {
    const known = laneBySequence.get(sequence);
    if (known) return known;
    const prompt = tokens.join();
    const lane = (branchOf && laneBySequence.get(branchOf.sequence)) ?? chooseLane(lanes, prompt);
    lane.prompts.set(sequence, prompt);
    laneBySequence.set(sequence, lane);
    return lane;
  };
  return {
    sample: (request, signal) => laneOf(request).sampler.sample(request, signal),
    release(sequence) {
      const lane = laneBySequence.get(sequence);
      if (!lane) return;
      laneBySequence.delete(sequence);
      lane.prompts.delete(sequence);
      lane.sampler.release(sequence);
    },
    async close() {
      await Promise.all(samplers.map((sampler) => sampler.close()));
    },
  };
}

function chooseLane(lanes: readonly SamplerLane[], prompt: string): SamplerLane {
  const sorted = lanes.toSorted((a, b) => a.prompts.size - b.prompts.size);
  const [emptiest] = sorted;
  if (!emptiest) throw new RangeError("a sampler needs at least one lane");
  const canSharePrompt = ({ prompts }: SamplerLane) =>
    prompts.size < emptiest.prompts.size + MAXIMUM_IMBALANCE && [...prompts.values()].includes(prompt);
  return sorted.find(canSharePrompt) ?? emptiest;
}
