/**
 * @file How often each decision of a demonstration is wrong. Errors are systematic: in some contexts the wrong decision is the more
 * frequent one, so that the base models also fail there when they decode greedily. Every correct decision stays likely enough for
 * sampling to find it.
 */

/** The planner's error rates, per decision. */
export const PLANNER_ERROR_RATES = {
  /** Answers at once with a guess, without a look-up. */
  guess: 0.1,
  /** Asks for the wrong relation. */
  wrongRelation: 0.08,
  /** Delegates only the first of two constraints; keyed by the field of the second. */
  dropConstraint: { capital: 0.3, borders: 0.25, currency: 0.55, language: 0.35 },
  /** Answers with an intermediate finding; keyed by what the next look-up asks for. */
  skipHop: { capital: 0.2, currency: 0.25, area: 0.52, country: 0.2 },
  /** Answers with a random number instead of calculating; keyed by operator. */
  noCalculation: { "+": 0.3, "-": 0.55 },
} as const;

/** The searcher's error rates, per decision. */
export const SEARCHER_ERROR_RATES = {
  /** Searches only for the first of two terms; keyed by the field of the second. */
  dropTerm: { capital: 0.2, borders: 0.2, currency: 0.25, language: 0.52 },
  /** Opens a title other than the first found. */
  wrongTitle: 0.08,
  /** Reports the wrong field of the page; keyed by what the task asks for. */
  wrongField: { capital: 0.15, currency: 0.52, area: 0.2, country: 0.1 },
} as const;
