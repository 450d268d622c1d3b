/** @file Numbers, model names and missing learning signals as text, and the order of rollouts by reward. */
import type { Estimate } from "../../../core/training/bootstrap.ts";
import type { GroupRow } from "../../views.ts";

export const percent = (share: number | null | undefined): string =>
  share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}%`;

/** Three significant digits; from 1,000 on, all digits of the nearest whole number. */
export function amount(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const rounded = Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3));
  return Number.isInteger(rounded) ? rounded.toLocaleString("en") : String(rounded);
}

/** The label of an axis: four significant digits; below a thousandth, two, in scientific notation. */
export function axisNumber(value: number): string {
  if (value === 0 || Math.abs(value) >= 1e-3) return value.toLocaleString("en", { maximumSignificantDigits: 4 });
  return Number(value.toPrecision(2)).toExponential();
}

export const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(3)}`;

/** The last MODEL_PARTS parts of an absolute path that has more; any other model name is unchanged. */
export function shortModel(model: string): string {
  const parts = model.slice(1).split("/");
  return model.startsWith("/") && parts.length > MODEL_PARTS ? `…/${parts.slice(-MODEL_PARTS).join("/")}` : model;
}

const MODEL_PARTS = 3;

/** Worst first; those without a reward, which teach nothing, last. */
export const byReward = (a: { readonly reward: number | null }, b: { readonly reward: number | null }): number =>
  (a.reward ?? Number.MAX_VALUE) - (b.reward ?? Number.MAX_VALUE);

/** `<agent>: <why>` for each agent that learns nothing from a group. */
export const missingSignals = ({ noSignal }: GroupRow): string[] =>
  Object.entries(noSignal).flatMap(([agent, why]) => (why === null ? [] : [`${agent}: ${why}`]));

/** A share, or a difference of shares, with its 95% interval, in percent. */
export function interval({ value, low, high }: Estimate, isDifference = false): string {
  const points = (share: number) => (100 * share).toFixed(1);
  const sign = isDifference && value > 0 ? "+" : "";
  return `${sign}${points(value)} [${points(low)}, ${points(high)}]`;
}

const SIZE_UNITS = ["bytes", "KB", "MB", "GB"] as const;

/** Bytes in units of powers of 1000, to three significant digits. */
export function size(bytes: number): string {
  let [value, unit] = [bytes, 0];
  for (; unit < SIZE_UNITS.length - 1 && Number(value.toPrecision(3)) >= 1000; unit++) value /= 1000;
  return `${Number(value.toPrecision(3))} ${SIZE_UNITS[unit]}`;
}

export const dollars = (usd: number | null): string => (usd === null ? "–" : `$${usd.toFixed(2)}`);

export function duration(seconds: number | null): string {
  if (seconds === null) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(whole / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
