/**
 * @file Tables of a page as Markdown: a plugin for turndown. No table stays HTML, so nothing in it reaches the agent that a reader of the page
 * does not see, such as comments and attributes.
 */
import type TurndownService from "turndown";

/** The part of the DOM that is used here; see hidden.ts. */
interface Element {
  readonly nodeName: string;
  readonly parentNode: Element | null;
  readonly childNodes: ArrayLike<Element>;
  getAttribute(name: string): string | null;
}
interface HtmlTable extends Element {
  readonly rows: ArrayLike<Element>;
  querySelector(selector: string): Element | null;
}

/** A table of a single row or column that has one of these arranges parts of a page. */
const HEADINGS = "h1, h2, h3, h4, h5, h6";
/** In characters. A longer value is not repeated: only the first of the rows that its cell spans shows it. */
const MAX_REPEATED = 200;
/** As in browsers. */
const MAX_COLUMN_SPAN = 1000;
const MIN_WIDTH = 3;

export function tables(turndown: TurndownService): void {
  const contents = new WeakMap<object, string>();
  const contentOf = (element: object) => contents.get(element) ?? "";
  turndown.addRule("cell", {
    filter: ["td", "th", "caption"],
    replacement(content, cell) {
      contents.set(cell, content.trim());
      return `\n\n${content}\n\n`;
    },
  });
  turndown.addRule("table", {
    filter: "table",
    // Cast: turndown's type of a node lacks the table's rows.
    replacement: (content, node) => `\n\n${markdownOf(node as unknown as HtmlTable, contentOf) ?? content}\n\n`,
  });
}

interface Row {
  readonly section: Element | null;
  readonly cells: readonly Element[];
  /** By column. */
  readonly values: string[];
}

/** Undefined: the cells are not values but parts of the page, as in a table that contains another, and are shown one after the other. */
function markdownOf(table: HtmlTable, contentOf: (element: Element) => string): string | undefined {
  const all = Array.from(table.rows, rowOf);
  const rows = all.filter(({ cells }) => cells.length > 0);
  const [first] = rows;
  if (!first || (rows.length === 1 && first.cells.length === 1)) return undefined;
  const isLine = rows.length === 1 || rows.every(({ cells }) => cells.length === 1);
  if (table.querySelector("table") || (isLine && table.querySelector(HEADINGS))) return undefined;
  for (const i of all.keys()) addValues(all, i, contentOf);
  const values = rows.map((row) => row.values);
  const columns = values.reduce((most, row) => Math.max(most, row.length), 0);
  const [head = [], ...body] = isHead(first) ? values : [[], ...values];
  const rule = Array.from({ length: columns }, () => "-".repeat(MIN_WIDTH));
  const caption = table.querySelector("caption");
  const lines = [head, rule, ...body].map((row) => lineOf(row, columns));
  return [...(caption ? [`${contentOf(caption)}\n`] : []), ...lines].join("\n");
}

const rowOf = (row: Element): Row => ({
  section: row.parentNode,
  cells: Array.from(row.childNodes).filter(({ nodeName }) => nodeName === "TD" || nodeName === "TH"),
  values: [],
});

const isHead = ({ section, cells }: Row): boolean =>
  section?.nodeName === "THEAD" || cells.every(({ nodeName }) => nodeName === "TH");

/**
 * Adds the values of row i's cells. A cell's value goes into every row that it spans within its section, or into row i alone if it is long;
 * and into the first of the columns that it spans.
 */
function addValues(rows: readonly Row[], i: number, contentOf: (cell: Element) => string): void {
  const { section, cells = [], values = [] } = rows[i] ?? {};
  let column = 0;
  for (const cell of cells) {
    // A cell of a row above may span this one.
    while (values[column] !== undefined) column += 1;
    const columns = Math.min(spanOf(cell, "colspan"), MAX_COLUMN_SPAN);
    // A heading in a cell is shown as its text.
    const content = contentOf(cell).replace(/^#+ /gm, "");
    const spanned = rows.slice(i, i + spanOf(cell, "rowspan")).filter((one) => one.section === section);
    for (const [j, row] of spanned.entries()) {
      row.values[column] = j === 0 || content.length <= MAX_REPEATED ? content : "";
      for (let k = 1; k < columns; k++) row.values[column + k] = "";
    }
    column += columns;
  }
}

/** A `rowspan` of 0 stands for all remaining rows of the section. */
function spanOf(cell: Element, attribute: "colspan" | "rowspan"): number {
  const span = Number.parseInt(cell.getAttribute(attribute) ?? "", 10);
  if (span === 0 && attribute === "rowspan") return Number.POSITIVE_INFINITY;
  return Math.max(1, span || 1);
}

function lineOf(row: readonly string[], columns: number): string {
  const values = Array.from({ length: columns }, (_, column) =>
    (row[column] ?? "")
      .replace(/[ \t]*\n+/g, "<br>")
      .replaceAll("|", "\\|")
      .padEnd(MIN_WIDTH),
  );
  return `| ${values.join(" | ")} |`;
}
