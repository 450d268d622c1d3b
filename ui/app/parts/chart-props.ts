/** @file What a chart draws. */

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number | null])[];
  /** Position in the palette, or the color of held-out accuracy. A raw line and its smoothed line share it. */
  readonly color: number | "heldOut";
  /** Drawn behind the line. */
  readonly band?: readonly (readonly [x: number, low: number, high: number])[];
  /** `raw`: thin, behind. `points`: without a line. `bar`: stacked. */
  readonly kind?: "raw" | "points" | "bar";
}

export interface ChartProps {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly xName?: string;
  /** Fixed bounds of the y axis. */
  readonly bounds?: readonly [number, number];
  /** Called with the x of a click, rounded to a whole number. */
  readonly onPick?: (x: number) => void;
}
