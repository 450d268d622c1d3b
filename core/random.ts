/**
 * @file Named random streams. Every draw of a run comes from a stream whose name is its purpose
 * (`stream(seed, "curriculum", stage, epoch)`), so a draw never depends on timing or on other streams. The name is hashed
 * (cyrb128) into the state of sfc32, which passes PractRand.
 */

/** A stream of draws, from `stream`. Each call advances it, so the order of calls decides the values. Not cryptographically secure. */
export interface Random {
  /** The next draw, uniform in [0, 1), with 32 bits of randomness. */
  uniform(): number;
  /** A uniform integer in [0, n). */
  integer(n: number): number;
  /** min(count, n) distinct indices from [0, n), in random order (partial Fisher-Yates). */
  choose(n: number, count: number): number[];
}

/** The parts of a stream's name, by convention the seed, the purpose, then indices. Names are compared as JSON: 1 and "1" differ. */
export type StreamName = readonly (string | number)[];

/** The stream with this name. The same name gives the same draws on every machine. */
export function stream(...name: StreamName): Random {
  const uniform = sfc32(cyrb128(JSON.stringify(name)));
  const integer = (n: number) => Math.floor(uniform() * n);
  return {
    uniform,
    integer,
    choose(n, count) {
      const indices = Array.from({ length: n }, (_, i) => i);
      for (let i = 0; i < Math.min(count, n); i++) {
        const j = i + integer(n - i);
        [indices[i], indices[j]] = [indices[j] as number, indices[i] as number];
      }
      return indices.slice(0, count);
    },
  };
}

function cyrb128(text: string): [number, number, number, number] {
  let [a, b, c, d] = [1779033703, 3144134277, 1013904242, 2773480762];
  for (let i = 0; i < text.length; i++) {
    const k = text.charCodeAt(i);
    a = b ^ Math.imul(a ^ k, 597399067);
    b = c ^ Math.imul(b ^ k, 2869860233);
    c = d ^ Math.imul(c ^ k, 951274213);
    d = a ^ Math.imul(d ^ k, 2716044179);
  }
  a = Math.imul(c ^ (a >>> 18), 597399067);
  b = Math.imul(d ^ (b >>> 22), 2869860233);
  c = Math.imul(a ^ (c >>> 17), 951274213);
  d = Math.imul(b ^ (d >>> 19), 2716044179);
  a ^= b ^ c ^ d;
  return [a >>> 0, (b ^ a) >>> 0, (c ^ a) >>> 0, (d ^ a) >>> 0];
}

function sfc32([a, b, c, d]: [number, number, number, number]): () => number {
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return (t >>> 0) / 4294967296;
  };
  for (let i = 0; i < 12; i++) next();
  return next;
}
