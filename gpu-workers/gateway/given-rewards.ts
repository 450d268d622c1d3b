/**
 * @file The rewards that an app gives in an attempt, over HTTP while it runs or in its result. Each is given once: the same number again changes
 * nothing, so requests may be repeated; a different number is refused.
 */
import type { GivenRewards } from "../../core/contracts/app-rollout.ts";

export class RewardLedger {
  readonly #subs: readonly string[];
  #reward: number | undefined;
  readonly #rewards = new Map<string, number>();

  constructor(subs: Iterable<string>) {
    this.#subs = [...subs];
  }

  /** Undefined if all were accepted; otherwise why none was. */
  give({ reward, rewards = {} }: GivenRewards): string | undefined {
    const fault = this.#faultOf(reward, rewards);
    if (fault !== undefined) return fault;
    this.#reward ??= reward;
    for (const [name, value] of Object.entries(rewards)) this.#rewards.set(name, value);
    return undefined;
  }

  given(): GivenRewards {
    return {
      ...(this.#reward !== undefined && { reward: this.#reward }),
      ...(this.#rewards.size > 0 && { rewards: Object.fromEntries([...this.#rewards].sort()) }),
    };
  }

  #faultOf(reward: number | undefined, rewards: Readonly<Record<string, number>>): string | undefined {
    const unknown = Object.keys(rewards).find((name) => !this.#subs.includes(name));
    if (unknown !== undefined) {
      return `the app rewards '${unknown}', which is not a sub-agent of this team (sub-agents: ${this.#subs.join(", ") || "none"})`;
    }
    if (this.#reward !== undefined && reward !== undefined && reward !== this.#reward) {
      return `the app gave reward ${this.#reward} and then ${reward}`;
    }
    const changed = Object.entries(rewards).find(([name, value]) => (this.#rewards.get(name) ?? value) !== value);
    return changed && `the app gave '${changed[0]}' reward ${this.#rewards.get(changed[0])} and then ${changed[1]}`;
  }
}
