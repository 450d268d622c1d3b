/**
 * @file What an inline style hides from people, by its declarations alone. Lengths are estimated in pixels, as in a window of 1000 x 1000
 * with a font size of 16: enough to tell hidden from visible. Style sheets are not read, and colors are not compared with backgrounds.
 */
import { createRequire } from "node:module";
import type * as Mathjs from "mathjs/number";

/** Property -> value, in lower case, in the order of the winning declarations: an important one wins, then the last one. */
export type InlineStyle = ReadonlyMap<string, string>;

const COMMENT = /\/\*.*?(?:\*\/|$)/gs;
const IMPORTANT = /!\s*important\s*$/;
const ESCAPE = /\\(?:([0-9a-f]{1,6})\s?|([^\n]))/gi;

export function parseInlineStyle(style: string): InlineStyle {
  const texts = style.replace(COMMENT, "").replace(ESCAPE, unescaped).toLowerCase().split(";");
  const declarations = texts.map((text) => {
    const [name = "", value = ""] = text.split(":", 2);
    return { name: name.trim(), value: value.replace(IMPORTANT, "").trim(), isImportant: IMPORTANT.test(value) };
  });
  const result = new Map<string, string>();
  for (const { name, value } of declarations.toSorted((a, b) => Number(a.isImportant) - Number(b.isImportant))) {
    // A key that is set again would keep its first position.
    result.delete(name);
    result.set(name, value);
  }
  return result;
}

function unescaped(_escape: string, hex: string | undefined, character: string | undefined): string {
  const code = Number.parseInt(hex ?? "", 16);
  return character ?? (code <= 0x10ffff ? String.fromCodePoint(code) : "");
}

/** Nobody sees the element or anything in it. */
export function hidesAll(style: InlineStyle): boolean {
  const value = (name: string) => style.get(name) ?? "";
  const opacity = pixels(value("opacity").replace(/([\d.]+)%/, "($1/100)"));
  return (
    value("display") === "none" ||
    value("content-visibility") === "hidden" ||
    (opacity !== undefined && opacity < MIN_OPACITY) ||
    /opacity\(\s*0*\.?0+%?\s*\)/.test(value("filter")) ||
    isClipped(style) ||
    isOffScreen(style) ||
    /scale(?:3d|x|y)?\(\s*0*\.?0+\s*[,)]/.test(value("transform"))
  );
}

/** Nobody sees the element. Descendants may make themselves visible again. */
export const isInvisible = (style: InlineStyle): boolean => /^(?:hidden|collapse)$/.test(style.get("visibility") ?? "");

export const isVisibleAgain = (style: InlineStyle): boolean =>
  /^(?:visible|initial)$/.test(style.get("visibility") ?? "");

/** Nobody sees the element's own text. Descendants with a size or color of their own are visible: layouts set a font size of 0 to remove gaps. */
export const hidesText = (style: InlineStyle): boolean => hasTinyFont(style) || hasTransparentColor(style);

/** The style undoes what hides the text of an ancestor with style `above`. */
export function restoresText(style: InlineStyle, above: InlineStyle): boolean {
  if (hasTinyFont(above)) {
    const size = fontSize(style);
    // Relative to 0, any size is 0. Another tiny one is handled separately, so no text is visited twice.
    if (size === undefined || (RELATIVE_SIZE.test(size) && !hasTinyFont(style))) return false;
  }
  if (!hasTransparentColor(above)) return true;
  const color = textColor(style);
  if (color !== undefined && !INHERITED.test(color)) return true;
  // The text then has its inherited `color`, whatever the fill above.
  return style.get(FILL) === "currentcolor" && !TRANSPARENT_COLOR.test(above.get("color") ?? "");
}

/** Values that leave a color as the parent has it. */
const INHERITED = /^(?:inherit|unset|revert(?:-layer)?|currentcolor)$/;
const RELATIVE_SIZE = /^(?:[\d.]+(?:em|ex|ch|%)|smaller|larger|inherit|unset|revert(?:-layer)?)$/;

const MIN_OPACITY = 0.05;
/** Pixels. */
const [TINY, FAR_AWAY] = [2, 2000];
const UNITS: Readonly<Record<string, number>> = {
  px: 1,
  pt: 4 / 3,
  pc: 16,
  in: 96,
  cm: 37.8,
  mm: 3.78,
  q: 0.945,
  em: 16,
  rem: 16,
  ex: 8,
  ch: 8,
  lh: 20,
  // Of the font size, even where CSS means a share of something else.
  "%": 0.16,
  vw: 10,
  vh: 10,
  vmin: 10,
  vmax: 10,
};
const NUMBER = "(?:\\d+\\.?\\d*|\\.\\d+)(?:e[+-]?\\d+)?";
const UNIT = "px|pt|pc|in|cm|mm|q|rem|em|ex|ch|lh|%|vw|vh|vmin|vmax";
const LENGTH = new RegExp(`(${NUMBER})(${UNIT})`, "g");
const ONE_LENGTH = new RegExp(`^([+-]?${NUMBER})(${UNIT})?$`);
/** Longer values are not evaluated. */
const MAX_CHARACTERS = 200;

/** A length or number, `calc()` included. Undefined: the value is neither, or depends on the page (`auto`, `var()`). */
function pixels(value: string): number | undefined {
  if (value === "" || value.length > MAX_CHARACTERS) return undefined;
  // Nearly all values are single lengths. Each call of mathjs takes tens of microseconds, and a page can have 100,000 of them.
  const [, only, unitOfOnly] = ONE_LENGTH.exec(value) ?? [];
  if (only !== undefined) return finite(scaled(only, unitOfOnly));
  const expression = value
    .replace(LENGTH, (_, count: string, unit: string) => `(${scaled(count, unit)})`)
    .replace(/(?:-webkit-)?calc\(/g, "(");
  if (!/^[\d\s.()+*/,e-]+$/.test(expression.replace(/\b(?:min|max|clamp)(?=\()/g, ""))) return undefined;
  const { evaluate } = mathjs();
  try {
    const clamp = (low: number, middle: number, high: number) => Math.max(low, Math.min(middle, high));
    const result: unknown = evaluate(expression, { clamp });
    return typeof result === "number" ? finite(result) : undefined;
  } catch {
    // Not CSS: browsers ignore the declaration.
    return undefined;
  }
}

const require = createRequire(import.meta.url);

/** Loaded at the first value that is not a single length: that takes a second, and most pages have no such value. */
const mathjs = () => require("mathjs/number") as typeof Mathjs;

const scaled = (count: string, unit = "px"): number => Number(count) * (UNITS[unit] ?? 1);

const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined);

/** `font-size`, or the size in `font`, which comes before the family and may have a line height. A number before it is the weight. */
function fontSize(style: InlineStyle): string | undefined {
  const names = [...style.keys()].filter((name) => name === "font" || name === "font-size");
  const last = names.at(-1);
  if (last === undefined) return undefined;
  const value = style.get(last);
  return last === "font"
    ? /(?:^|\s)(?![1-9]\d*\s)((?:calc|min|max|clamp)\(.*\)|\.?\d[\w.%]*)(?=\s*\/|\s+\D)/.exec(value ?? "")?.[1]
    : value;
}

function hasTinyFont(style: InlineStyle): boolean {
  const size = pixels(fontSize(style) ?? "");
  return size !== undefined && size < TINY;
}

const FILL = "-webkit-text-fill-color";

/** A fill overrides `color`, unless it is `currentcolor`: the element's own `color`. */
function textColor(style: InlineStyle): string | undefined {
  const fill = style.get(FILL);
  return fill === undefined || fill === "currentcolor" ? style.get("color") : fill;
}

/** By its alpha: the fourth value, the one after a slash, or in `rgba(var(…), 0)` the one after a variable with three values. */
const TRANSPARENT_COLOR =
  /^(?:transparent|#[\da-f]{3}0|#[\da-f]{6}0[\da-f]|(?:rgb|hsl)(?:a?\((?:(?:[^,]+,){3}|[^,/]+\/)|a\(\s*var\([^()]*\)\s*,)\s*0*\.?0+%?\s*\))$/;

const hasTransparentColor = (style: InlineStyle): boolean => TRANSPARENT_COLOR.test(textColor(style) ?? "");

/** Clipped to nothing, or to a point. */
function isClipped(style: InlineStyle): boolean {
  const sides = /^rect\(([^)]*)\)$/.exec(style.get("clip") ?? "")?.[1]?.split(/[\s,]+/) ?? [];
  const [top, right, bottom, left] = sides.map(pixels);
  const isEmptyRect = isNarrow(top, bottom) || isNarrow(left, right);
  const path = style.get("clip-path") ?? "";
  const isEmptyPath =
    hasEmptyInset(path) || /^(?:circle|ellipse)\(\s*0[\s%a-z)]/.test(path) || /^polygon\([\s0,a-z%]*\)$/.test(path);
  const isCut = /hidden|clip/.test(`${style.get("overflow")} ${style.get("overflow-x")} ${style.get("overflow-y")}`);
  return isEmptyRect || isEmptyPath || (isCut && isFlat(style));
}

/** Has no width or no height. Content overflows into the padding on the right and at the bottom, and is visible there. */
function isFlat(style: InlineStyle): boolean {
  const isTiny = (name: string) => {
    const size = pixels(style.get(name) ?? "");
    return size !== undefined && size < TINY && !/%/.test(style.get(name) ?? "");
  };
  const [top = "", right = top, bottom = top] = valuesOf(style.get("padding"));
  const isWide = (padding: string) => (pixels(padding) ?? 0) >= TINY;
  const hasRoom = {
    width: isWide(style.get("padding-right") ?? right),
    height: isWide(style.get("padding-bottom") ?? bottom),
  };
  return (["width", "height"] as const).some((side) => !hasRoom[side] && (isTiny(side) || isTiny(`max-${side}`)));
}

/** Whether `inset()` cuts off everything: the percentages of two opposite sides add up to 100 or more. */
function hasEmptyInset(path: string): boolean {
  const [shape = ""] = (/^inset\(([^()]*)\)/.exec(path)?.[1] ?? "").split("round");
  const [top = "", right = top, bottom = top, left = right] = valuesOf(shape.trim());
  const share = (side: string) => Number(/^([\d.]+)%$/.exec(side)?.[1] ?? 0);
  return share(top) + share(bottom) >= 100 || share(left) + share(right) >= 100;
}

const isNarrow = (from: number | undefined, to: number | undefined): boolean =>
  from !== undefined && to !== undefined && to - from < TINY;

const OFFSETS = ["left", "top", "right", "bottom", "text-indent", "margin-left", "margin-top"] as const;

/** The values of a shorthand; one in parentheses may contain spaces. */
const valuesOf = (shorthand: string | undefined): string[] => (shorthand ?? "").split(/\s+(?![^(]*\))/);

function isOffScreen(style: InlineStyle): boolean {
  const moves = [...(style.get("transform") ?? "").matchAll(/translate\w*\(([^)]*)\)/g)].flatMap(([, by = ""]) =>
    by.split(","),
  );
  // A negative margin on the right or at the bottom moves what follows instead.
  const [marginTop = "", marginRight = marginTop, , marginLeft = marginRight] = valuesOf(style.get("margin"));
  const offsets = [
    ...OFFSETS.map((name) => style.get(name) ?? ""),
    ...valuesOf(style.get("inset")),
    marginTop,
    marginLeft,
    ...moves,
  ];
  return offsets.some((offset) => (pixels(offset.trim()) ?? 0) <= -FAR_AWAY);
}
