/** @file Numbers as text. */
import type { Estimate } from "../../../core/training/bootstrap.ts";

export const percent = (share: number | null | undefined): string =>
  share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;

/** Three significant digits. */
export function amount(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

export const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(3)}`;

/** A path's last folders; other names of models as they are. */
export function shortModel(model: string): string {
  const parts = model.split("/");
  return model.startsWith("/") && parts.length > MODEL_PARTS ? `…/${parts.slice(-MODEL_PARTS).join("/")}` : model;
}

const MODEL_PARTS = 3;

/** Worst first; those without a reward, which teach nothing, last. */
export const byReward = (a: { readonly reward: number | null }, b: { readonly reward: number | null }): number =>
  (a.reward ?? Number.MAX_VALUE) - (b.reward ?? Number.MAX_VALUE);

/** A share, or a difference of shares, with its 95 % interval, in percent. */
export function interval({ value, low, high }: Estimate, isDifference = false): string {
  const points = (share: number) => (100 * share).toFixed(1);
  const sign = isDifference && value > 0 ? "+" : "";
  return `${sign}${points(value)} [${points(low)}, ${points(high)}]`;
}

/** Bytes, by powers of 1000. */
export function size(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${Number((bytes / 1000 ** power).toPrecision(3))} ${["bytes", "KB", "MB", "GB"][power]}`;
}

export const dollars = (usd: number | null): string => (usd === null ? "–" : `$${usd.toFixed(2)}`);

export function duration(seconds: number | null): string {
  if (seconds === null) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}
