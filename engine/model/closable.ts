/** @file A trainer of this machine that refuses to work once it is closed. */
import { MgrpoError } from "../../core/errors.ts";
import type { Trainer } from "../../core/ports.ts";

/** A trainer that sees its gradient and its files. */
export type LocalTrainer = Required<Omit<Trainer, "optimizerProbe">>;

export const closedTrainer = () => new MgrpoError("canceled", "the trainer is closed: open another");

/** The trainer, whose calls reject with `canceled` once it is closed. It may be closed again. */
export function closable(trainer: LocalTrainer): Trainer {
  let isClosed = false;
  const opened = () => {
    if (isClosed) throw closedTrainer();
    return trainer;
  };
  return {
    logProbs: async (...given) => opened().logProbs(...given),
    forwardBackward: async (...given) => opened().forwardBackward(...given),
    optimizerStep: async (...given) => opened().optimizerStep(...given),
    gradientNorm: async () => opened().gradientNorm(),
    save: async () => opened().save(),
    async *saveFiles() {
      yield* opened().saveFiles();
    },
    load: async (files) => opened().load(files),
    close() {
      isClosed = true;
      return trainer.close();
    },
  };
}
