/**
 * @file Removes from an HTML page what people do not see but a model would read: `hidden`, closed dialogs, popovers, `<title>` in the body, and
 * what inline styles hide when the page opens (inline-style.ts). Also removes `aria-hidden="true"`: visible, but decoration, or a repetition
 * of the neighboring text. Images with an `alt` are kept: on Wikipedia, they are the formulas that people see. Style sheets are not evaluated.
 * Text that a script or a click reveals is lost if any of these hides it; `hidden="until-found"`, which find-in-page reveals, and closed
 * `<details>` are kept.
 */
import {
  hidesAll,
  hidesText,
  type InlineStyle,
  isInvisible,
  isVisibleAgain,
  parseInlineStyle,
  restoresText,
} from "./inline-style.ts";

/** The part of the DOM that is used here; linkedom's types refer to TypeScript's DOM library, which this project does not include. */
interface DomNode {
  readonly nodeType: number;
  readonly childNodes: Iterable<DomNode>;
  remove(): void;
  getAttribute?(name: string): string | null;
}
interface DomDocument {
  querySelectorAll(selector: string): Iterable<DomNode>;
}

const HIDDEN = [
  '[hidden]:not([hidden="until-found" i])',
  '[aria-hidden="true" i]:not(img[alt]:not([alt=""]))',
  "dialog:not([open])",
  "[popover]",
  "body title",
].join();
const TEXT_NODE = 3;

export function removeHidden(document: DomDocument): void {
  for (const node of document.querySelectorAll(HIDDEN)) node.remove();
  for (const node of document.querySelectorAll("[style]")) {
    const style = styleOf(node);
    if (hidesAll(style) || (isInvisible(style) && !keepVisible(node))) node.remove();
    else if (hidesText(style)) removeText(node, style);
  }
}

/** Removes what is invisible in an invisible element. Returns whether anything is left. */
function keepVisible(node: DomNode): boolean {
  let isNeeded = false;
  for (const child of [...node.childNodes]) {
    if (isVisibleAgain(styleOf(child)) || keepVisible(child)) isNeeded = true;
    else child.remove();
  }
  return isNeeded;
}

function removeText(node: DomNode, hiding: InlineStyle): void {
  for (const child of [...node.childNodes]) {
    if (child.nodeType === TEXT_NODE) child.remove();
    else if (!restoresText(styleOf(child), hiding)) removeText(child, hiding);
  }
}

const styleOf = (node: DomNode): InlineStyle => parseInlineStyle(node.getAttribute?.("style") ?? "");
