/**
 * @file Removes from an HTML page what people do not see but a model would read: `hidden`, and inline styles with `display: none`,
 * `visibility: hidden` or `font-size: 0`, which always hide. Also removes `aria-hidden="true"`: visible, but decoration, or a repetition of
 * the neighboring text. Style sheets, colors, opacity and positions are not evaluated: with them pages also hide what a script or a click
 * reveals (menus, sections, animations), which is content. So is `hidden="until-found"`, which a browser's search reveals.
 */

/** The part of the DOM that is used here; linkedom has no types of its own for it. */
interface DomNode {
  readonly nodeType: number;
  readonly childNodes: Iterable<DomNode>;
  remove(): void;
  getAttribute?(name: string): string | null;
}
interface DomDocument {
  querySelectorAll(selector: string): Iterable<DomNode>;
}

const HIDDEN = '[hidden]:not([hidden="until-found" i]), [aria-hidden="true" i]';
const TEXT_NODE = 3;

export function removeHidden(document: DomDocument): void {
  for (const node of document.querySelectorAll(HIDDEN)) node.remove();
  for (const node of document.querySelectorAll("[style]")) {
    const style = styleOf(node);
    if (style.get("display") === "none" || /^(hidden|collapse)$/.test(style.get("visibility") ?? "")) node.remove();
    else if (isZero(style.get("font-size"))) removeText(node);
  }
}

/** Keeps descendants with their own font size: layouts set 0 to remove the gaps between them. */
function removeText(node: DomNode): void {
  for (const child of [...node.childNodes]) {
    if (child.nodeType === TEXT_NODE) child.remove();
    else if (!hasOwnSize(child)) removeText(child);
  }
}

function hasOwnSize(node: DomNode): boolean {
  const size = styleOf(node).get("font-size");
  // Relative to 0, any size is 0. Another 0 is handled separately, so no text is visited twice.
  return size !== undefined && (isZero(size) || !/^[\d.]+(em|ex|ch|%)$/.test(size));
}

const isZero = (size: string | undefined): boolean => size !== undefined && Number.parseFloat(size) === 0;

/** The declarations of an inline style, in lower case; the last one of each name wins. */
function styleOf(node: DomNode): ReadonlyMap<string, string> {
  const style = node.getAttribute?.("style") ?? "";
  const declarations = style
    .toLowerCase()
    .replace(/\/\*.*?(?:\*\/|$)/gs, "")
    .split(";");
  return new Map(
    declarations.map((declaration) => {
      const [name = "", value = ""] = declaration.split(":", 2);
      return [name.trim(), value.replace(/!\s*important\s*$/, "").trim()];
    }),
  );
}
