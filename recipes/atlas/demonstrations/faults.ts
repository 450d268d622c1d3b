/**
 * @file How the demonstrations go wrong, and how often. The faults are systematic: each belongs to a kind of decision, and in some
 * contexts it is what is done more often than not, so that the base models fail there greedily too. Every right decision stays
 * likely enough for sampling to find it.
 */

/** The planner's faults, per decision. */
export const PLANNER_FAULTS = {
  /** Answers at once, out of thin air, instead of looking up. */
  guess: 0.1,
  /** Asks for another relation than it should. */
  wrongRelation: 0.08,
  /** Delegates only the first of two constraints, by the field of the second. */
  dropConstraint: { capital: 0.3, borders: 0.25, currency: 0.55, language: 0.35 },
  /** Takes what it found on the way for the answer, by the relation still to be asked. */
  skipHop: { capital: 0.2, currency: 0.25, area: 0.52, country: 0.2 },
  /** Writes down a number instead of calculating it, by operator. */
  noCalculation: { "+": 0.3, "-": 0.55 },
} as const;

/** The searcher's faults, per decision. */
export const SEARCHER_FAULTS = {
  /** Searches for the first of two terms only, by the field of the second. */
  dropTerm: { capital: 0.2, borders: 0.2, currency: 0.25, language: 0.52 },
  /** Opens another of the titles found. */
  wrongTitle: 0.08,
  /** Reports another field of the page, by the field asked. */
  wrongField: { capital: 0.15, currency: 0.52, area: 0.2, country: 0.1 },
} as const;
