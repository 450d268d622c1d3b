/** @file Numbers as text. */

export const percent = (share: number | null | undefined): string =>
  share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;

/** Three significant digits. */
export function amount(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

export const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(3)}`;

export function duration(seconds: number | null): string {
  if (seconds === null) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}
