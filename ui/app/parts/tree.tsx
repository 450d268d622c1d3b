/**
 * @file The tree of a rollout, a case study or an answer: turns, delegations, tool calls, rewards and advantages. Its text is never parsed as
 * HTML.
 */
import { useState } from "preact/hooks";
import type { Tree } from "../../views.ts";
import { useSource } from "../source.ts";
import { Pre } from "./pre.tsx";
import { Tokens } from "./tokens.tsx";

interface TreeProps {
  readonly tree: Tree;
  /** The path of a trajectory's tokens; absent: the tree shows no tokens. */
  readonly tokens?: (trajectory: string) => string;
}

export function TreeNode({ tree, tokens }: TreeProps) {
  const { title, tags, note, body, children, trajectory } = tree;
  const heading = (
    <>
      <b>{title}</b>
      {tags.map(({ text, tone }) => (
        <span key={text} class={`tag ${tone}`}>
          {text}
        </span>
      ))}
    </>
  );
  const isLeaf = children.length === 0 && !body && trajectory === undefined;
  if (isLeaf) return <div class="leaf">{heading}</div>;
  return (
    <details open={!tree.folded}>
      <summary>{heading}</summary>
      {note && <p class="note">Note: {note}</p>}
      {body && <Pre label={title}>{body}</Pre>}
      {trajectory !== undefined && tokens && <TokensOnDemand path={tokens(trajectory)} />}
      <div class={tree.sideBySide ? "beside" : ""}>
        {children.map((child, i) => (
          <TreeNode key={`${i} ${child.title}`} tree={child} {...(tokens && { tokens })} />
        ))}
      </div>
    </details>
  );
}

function TokensOnDemand({ path }: { readonly path: string }) {
  const [isShown, setShown] = useState(false);
  if (useSource().href(path) === undefined) return null;
  return (
    <>
      <button type="button" class="small" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
        {isShown ? "hide tokens" : "tokens"}
      </button>
      {isShown && <Tokens path={`/api${path}`} />}
    </>
  );
}
