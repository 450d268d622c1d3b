/** @file The figures of the comparison: medians, ratios by round, and the tables that show them. Pure. */
import { median } from "../../core/statistics.ts";
import type { Lap } from "./laps.ts";

/** One side: its measured laps in order, and the peak of its resident memory. */
export interface PeerLaps {
  readonly laps: readonly Lap[];
  readonly peakBytes: number;
}

/** How many times as long the peer took in the same round: the median over the rounds, and the range. Above 1, ours is faster. */
export interface Ratio {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

type Seconds = (lap: Lap) => number;
const PARTS: Readonly<Record<"step" | "sampling" | "training", Seconds>> = {
  step: ({ seconds }) => seconds,
  sampling: ({ samplingSeconds }) => samplingSeconds,
  training: ({ seconds, samplingSeconds }) => seconds - samplingSeconds,
};
const MEGABYTE = 1e6;

/** Divides round by round: what slows the machine down for a while slows both sides of a round. */
export function ratioOf(ours: PeerLaps, peer: PeerLaps, seconds: Seconds): Ratio {
  const ratios = ours.laps.map((lap, round) => {
    const other = peer.laps[round];
    return other ? seconds(other) / seconds(lap) : Number.NaN;
  });
  return { median: median(ratios), least: Math.min(...ratios), most: Math.max(...ratios) };
}

/** The median over the rounds of tokens per second. */
export const rateOf = ({ laps }: PeerLaps): number =>
  median(laps.map(({ sampledTokens, samplingSeconds }) => sampledTokens / samplingSeconds));

export function stepFigures(ours: PeerLaps, trl: PeerLaps) {
  const part = (seconds: Seconds) => ({
    ours: median(ours.laps.map(seconds)),
    trl: median(trl.laps.map(seconds)),
    ratio: ratioOf(ours, trl, seconds),
  });
  return {
    seconds: { step: part(PARTS.step), sampling: part(PARTS.sampling), training: part(PARTS.training) },
    peakBytes: { ours: ours.peakBytes, trl: trl.peakBytes, ratio: trl.peakBytes / ours.peakBytes },
    entropy: { ours: entropyOf(ours), trl: entropyOf(trl) },
  };
}

/** Per form of ours and per file of llama.cpp: rate and peak memory. Per form also: entropy, and the ratio to each file. */
export function decodingFigures(ours: Readonly<Record<string, PeerLaps>>, llama: Readonly<Record<string, PeerLaps>>) {
  const alone = (side: PeerLaps) => ({ tokensPerSecond: rateOf(side), peakBytes: side.peakBytes });
  const against = (side: PeerLaps) => mapValues(llama, (peer) => ratioOf(side, peer, PARTS.sampling));
  return {
    ours: mapValues(ours, (side) => ({ ...alone(side), entropy: entropyOf(side), ratios: against(side) })),
    llama: mapValues(llama, alone),
  };
}

export function stepTable({ seconds, peakBytes, entropy }: ReturnType<typeof stepFigures>): string {
  const timed = Object.entries(seconds).map(([name, { ours, trl, ratio }]) => [
    `${name}, s`,
    ours.toFixed(1),
    trl.toFixed(1),
    showRatio(ratio),
  ]);
  const memory = [megabytes(peakBytes.ours), megabytes(peakBytes.trl), peakBytes.ratio.toFixed(2)];
  return table([
    ["", "mgrpo", "TRL", "TRL / mgrpo"],
    ...timed,
    ["peak memory, MB", ...memory],
    ["entropy of a token, nats", entropy.ours.toFixed(2), entropy.trl.toFixed(2), ""],
  ]);
}

export function decodingTable({ ours, llama }: ReturnType<typeof decodingFigures>): string {
  const files = Object.keys(llama);
  const rate = (value: number) => value.toFixed(1);
  return table([
    ["", "tokens/s", "peak memory, MB", ...files.map((file) => `x llama.cpp ${file}`)],
    ...Object.entries(ours).map(([form, { tokensPerSecond, peakBytes, ratios }]) => [
      `mgrpo ${form}`,
      rate(tokensPerSecond),
      megabytes(peakBytes),
      ...Object.values(ratios).map(showRatio),
    ]),
    ...Object.entries(llama).map(([file, { tokensPerSecond, peakBytes }]) => [
      `llama.cpp ${file}`,
      rate(tokensPerSecond),
      megabytes(peakBytes),
      ...files.map(() => ""),
    ]),
  ]);
}

/** The median over the rounds; NaN if the side does not know it. */
const entropyOf = ({ laps }: PeerLaps): number => median(laps.map(({ entropy }) => entropy ?? Number.NaN));
const megabytes = (bytes: number) => String(Math.round(bytes / MEGABYTE));
const showRatio = ({ median, least, most }: Ratio) => `${median.toFixed(2)} (${least.toFixed(2)} - ${most.toFixed(2)})`;

function mapValues<V, W>(record: Readonly<Record<string, V>>, change: (value: V) => W): Record<string, W> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}

/** Columns as wide as their widest cell: the first left-aligned, the others right-aligned. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const pad = (cell: string, column: number) =>
    column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0);
  return rows.map((row) => row.map(pad).join("  ").trimEnd()).join("\n");
}
