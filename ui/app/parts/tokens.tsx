/**
 * @file A trajectory token by token: sampled tokens stand out, less probable ones more; all others are dimmed. Tokens on which
 * sampler and trainer disagree, and clipped tokens, are marked.
 */
import type { TokenView } from "../../views.ts";
import { useView } from "../load.ts";
import { Pre } from "./pre.tsx";

/** Log-probs: a sampled token stands out more with each threshold that its log-prob is below. */
const THRESHOLDS = [-0.1, -0.7, -2.3, -4.6];
/** A token is marked if the log-probs of sampler and trainer differ by more than this, in nats. */
const FAR = 1e-3;

export function Tokens({ path }: { readonly path: string }) {
  const { view, failure } = useView<TokenView>(path);
  if (failure) return <p class="faint">{failure.message}</p>;
  if (!view) return <p class="faint">Loading …</p>;
  const actions = actionsByPosition(view);
  const { trained, logProbs } = view;
  const mean = logProbs.reduce((sum, one) => sum + one, 0) / Math.max(1, logProbs.length);
  return (
    <>
      <p class="faint">
        {view.agent}, version {view.version}: {view.tokens.length} tokens, {logProbs.length} sampled, mean log-prob{" "}
        {mean.toFixed(3)}. Dimmed tokens are masked: the policy did not emit them.
      </p>
      {trained && <Mismatch view={view} trained={trained} />}
      <Pre label="tokens" className="tokens">
        {view.tokens.map((text, i) => {
          const action = actions.get(i);
          if (action === undefined) return <span key={i}>{text}</span>;
          const { logProb, difference, isClipped } = action;
          const strength = THRESHOLDS.filter((limit) => logProb < limit).length;
          const probability = Math.exp(logProb).toFixed(4);
          const marks = [
            difference !== undefined && `, trainer − sampler ${difference.toExponential(1)}`,
            isClipped && ", clipped",
          ].filter(Boolean);
          const hint = `${JSON.stringify(text)}: log-prob ${logProb.toFixed(4)}, probability ${probability}${marks.join("")}`;
          const isFar = difference !== undefined && Math.abs(difference) > FAR;
          const classes = `sampled p${strength}${isFar ? " far" : ""}${isClipped ? " clipped" : ""}`;
          return (
            <span key={i} class={classes} title={hint}>
              {text}
            </span>
          );
        })}
      </Pre>
    </>
  );
}

interface MismatchProps {
  readonly view: TokenView;
  readonly trained: NonNullable<TokenView["trained"]>;
}

/** How far apart sampler and trainer are, in one line. */
function Mismatch({ view, trained }: MismatchProps) {
  const differences = trained.logProbs.map((one, a) => Math.abs(one - (view.logProbs[a] ?? 0)));
  const mean = differences.reduce((sum, one) => sum + one, 0) / Math.max(1, differences.length);
  const largest = differences.reduce((most, one) => Math.max(most, one), 0);
  const far = differences.filter((one) => one > FAR).length;
  return (
    <p class="faint">
      |trainer − sampler|: mean {mean.toExponential(1)}, largest {largest.toExponential(1)} nats;{" "}
      <span class="far">
        {far} above {FAR}
      </span>
      ; <span class="clipped">{trained.clipped.length} clipped</span>.
    </p>
  );
}

interface Action {
  readonly logProb: number;
  /** The trainer's log-prob minus the sampler's, in nats; undefined: the trainer's is not stored. */
  readonly difference: number | undefined;
  readonly isClipped: boolean;
}

function actionsByPosition({ actions, logProbs, trained }: TokenView): Map<number, Action> {
  const positions = actions.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i));
  const clipped = new Set(trained?.clipped);
  return new Map(
    positions.map((position, a) => {
      const logProb = logProbs[a] ?? 0;
      const trainerLogProb = trained?.logProbs[a];
      const difference = trainerLogProb === undefined ? undefined : trainerLogProb - logProb;
      return [position, { logProb, difference, isClipped: clipped.has(a) }];
    }),
  );
}
