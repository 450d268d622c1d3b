/**
 * @file A sampler on several lanes: a sequence stays where its cache is. A new one goes to the lane with the fewest, or to one with a few more
 * where others began with the same tokens: rollouts of a question share its prompt, and all that they go on to say alike.
 */
import type { SampleRequest, Sampler } from "../../../core/ports.ts";

/** So many more sequences than the emptiest lane has are no reason to part from one's kind. */
const UNEVEN = 8;

interface Lane {
  readonly sampler: Sampler;
  /** How each of its sequences began. */
  readonly beginnings: Map<string, string>;
}

export function laneSampler(samplers: readonly Sampler[]): Sampler {
  const lanes = samplers.map((sampler): Lane => ({ sampler, beginnings: new Map() }));
  const homes = new Map<string, Lane>();
  const homeOf = ({ sequence, tokens }: SampleRequest): Lane => {
    const known = homes.get(sequence);
    if (known) return known;
    const beginning = tokens.join();
    const sorted = lanes.toSorted((a, b) => a.beginnings.size - b.beginnings.size);
    const [least] = sorted as [Lane, ...Lane[]];
    const isAlike = ({ beginnings }: Lane) =>
      beginnings.size < least.beginnings.size + UNEVEN && [...beginnings.values()].includes(beginning);
    const home = sorted.find(isAlike) ?? least;
    home.beginnings.set(sequence, beginning);
    homes.set(sequence, home);
    return home;
  };
  return {
    sample: (request, signal) => homeOf(request).sampler.sample(request, signal),
    release(sequence) {
      const home = homes.get(sequence);
      if (!home) return;
      homes.delete(sequence);
      home.beginnings.delete(sequence);
      home.sampler.release(sequence);
    },
    async close() {
      await Promise.all(samplers.map((sampler) => sampler.close()));
    },
  };
}
