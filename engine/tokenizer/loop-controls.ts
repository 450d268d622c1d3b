/**
 * @file Finds `{% break %}` and `{% continue %}` that @huggingface/jinja (0.5.11) renders wrongly: it drops the text that the same iteration
 * wrote before the tag. A tag that may come after text counts, even if in fact it never does.
 */

/** A node of a parsed template, with the fields of every type that matters here. */
interface TemplateNode {
  readonly type: string;
  /** Of a loop, condition, macro, call or filter block. */
  readonly body?: readonly TemplateNode[];
  readonly alternate?: readonly TemplateNode[];
  /** A loop's `else`. */
  readonly defaultBlock?: readonly TemplateNode[];
  /** Of a literal: for the template's own text, that text. */
  readonly value?: unknown;
  /** The called function. */
  readonly callee?: TemplateNode;
}

/**
 * Calls `onLoss` at each tag that may drop text.
 * @param written whether the iteration may have written text before `nodes`. @returns whether it may have written text by the end of `nodes`.
 */
export function visitLoopControls(
  nodes: readonly TemplateNode[],
  onLoss: (tag: "break" | "continue") => void,
  written = false,
): boolean {
  const visit = (inner: readonly TemplateNode[] = [], before = false) => visitLoopControls(inner, onLoss, before);
  return nodes.reduce((before, { type, body, alternate, defaultBlock, value, callee }) => {
    switch (type) {
      case "Break":
      case "Continue":
        if (before) onLoss(type === "Break" ? "break" : "continue");
        return before;
      case "If":
        return [visit(body, before), visit(alternate, before)].includes(true);
      case "For":
        return [before, visit(body), visit(defaultBlock, before)].includes(true);
      case "Macro":
        visit(body);
        return before;
      case "Set":
      case "Comment":
        return before;
      case "StringLiteral":
        return before || value !== "";
      case "CallExpression":
        // `raise_exception` writes nothing: it ends the rendering.
        return before || callee?.value !== "raise_exception";
      default:
        visit(body, before);
        return true;
    }
  }, written);
}
