/** @file Draws a tree as one self-contained page that is safe to share: no script, no request, and all text escaped. */
import { html, raw } from "hono/html";
import type { Tree } from "../../ui/views.ts";

/** The width is larger for pages with columns. */
const style = (width: string) => `
:root{color-scheme:light dark;--ink:#1f2328;--faint:#656d76;--paper:#fff;--card:#f6f8fa;--line:#d8dee4;--good:#1a7f37;--bad:#cf222e;--mark:#0969da}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#8d96a0;--paper:#0d1117;--card:#161b22;--line:#30363d;--good:#3fb950;--bad:#f85149;--mark:#58a6ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:${width};padding:2.5rem 1.25rem 5rem;background:var(--paper);color:var(--ink);font:15px/1.55 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
h1{margin:0;font-size:1.4rem;letter-spacing:-.01em}
.sub{margin:.25rem 0 2rem;color:var(--faint)}
details,.leaf{margin:.45rem 0 .45rem;padding-left:1rem;border-left:2px solid var(--line)}
details:hover{border-left-color:var(--mark)}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary::before{content:"▸";display:inline-block;width:1rem;margin-left:-1rem;color:var(--faint);transform-origin:.3rem 55%}
details[open]>summary::before{transform:rotate(90deg)}
b{font-weight:600}
.tag{display:inline-block;margin-left:.5rem;padding:0 .5rem;border-radius:1rem;background:var(--card);font-size:.86em;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1.5rem}
.note{margin:.3rem 0;color:var(--faint);font-style:italic}
.good{color:var(--good)}.bad{color:var(--bad)}.faint{color:var(--faint)}
pre{margin:.4rem 0;padding:.6rem .8rem;border-radius:.5rem;background:var(--card);font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;max-height:22rem;overflow:auto}
`;

export async function drawPage(title: string, subtitle: string, trees: readonly Tree[]): Promise<string> {
  const wide = trees.some(({ children }) => children.some(({ sideBySide }) => sideBySide));
  const page = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>${title}</title>
<style>${raw(style(wide ? "96rem" : "62rem"))}</style>
</head>
<body>
<h1>${title}</h1>
<p class="sub">${subtitle}</p>
${trees.map(node)}
</body>
</html>
`;
  return String(page);
}

function node(tree: Tree): ReturnType<typeof html> {
  const heading = html`<b>${tree.title}</b>${tree.tags.map(({ text, tone }) => html`<span class="tag ${tone}">${text}</span>`)}`;
  const body = tree.body === undefined || tree.body === "" ? "" : html`<pre>${tree.body}</pre>`;
  const note = tree.note === undefined ? "" : html`<p class="note">Note: ${tree.note}</p>`;
  if (tree.children.length === 0 && body === "") return html`<div class="leaf">${heading}</div>`;
  const children = tree.children.map(node);
  const below = tree.sideBySide
    ? html`<div class="beside">${children.map((child) => html`<div>${child}</div>`)}</div>`
    : children;
  const inside = html`<summary>${heading}</summary>${note}${body}${below}`;
  return tree.folded ? html`<details>${inside}</details>` : html`<details open>${inside}</details>`;
}
