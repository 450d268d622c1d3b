/** @file A region that scrolls sideways, by keyboard too. */
import type { ComponentChildren } from "preact";

interface ScrollProps {
  readonly label: string;
  /** Added to the class that makes the region scroll. */
  readonly className?: string;
  readonly children: ComponentChildren;
}

export const Scroll = ({ label, className, children }: ScrollProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard (WCAG 2.1.1)
  <section class={className ? `wide ${className}` : "wide"} aria-label={label} tabIndex={0}>
    {children}
  </section>
);
