/** @file A trajectory token by token: what the policy sampled stands out, the less probable the stronger; all else is dimmed. */
import type { TokenView } from "../../views.ts";
import { useView } from "../load.ts";
import { Pre } from "./pre.tsx";

/** Log-probs below which a token stands out, weakest first. */
const STEPS = [-0.1, -0.7, -2.3, -4.6];

export function Tokens({ path }: { readonly path: string }) {
  const { view, failure } = useView<TokenView>(path);
  if (failure) return <p class="faint">{failure.message}</p>;
  if (!view) return <p class="faint">Loading …</p>;
  const logProbs = logProbsByPosition(view);
  const sampled = view.logProbs;
  const mean = sampled.reduce((sum, one) => sum + one, 0) / Math.max(1, sampled.length);
  return (
    <>
      <p class="faint">
        {view.agent}, version {view.version}: {view.tokens.length} tokens, {sampled.length} sampled, mean log-prob{" "}
        {mean.toFixed(3)}. Dimmed tokens are masked: the policy did not emit them.
      </p>
      <Pre label="tokens" className="tokens">
        {view.tokens.map((text, i) => {
          const logProb = logProbs.get(i);
          if (logProb === undefined) return <span key={i}>{text}</span>;
          const strength = STEPS.filter((limit) => logProb < limit).length;
          const probability = Math.exp(logProb).toFixed(4);
          const hint = `${JSON.stringify(text)}: log-prob ${logProb.toFixed(4)}, probability ${probability}`;
          return (
            <span key={i} class={`sampled p${strength}`} title={hint}>
              {text}
            </span>
          );
        })}
      </Pre>
    </>
  );
}

function logProbsByPosition({ actions, logProbs }: TokenView): Map<number, number> {
  const positions = actions.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i));
  return new Map(positions.map((position, i) => [position, logProbs[i] ?? 0]));
}
