/** @file A region that scrolls sideways, by keyboard too. */
import type { ComponentChildren } from "preact";

interface ScrollProps {
  readonly label: string;
  readonly className?: string;
  readonly children: ComponentChildren;
}

export const Scroll = ({ label, className = "wide", children }: ScrollProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard (WCAG 2.1.1)
  <section class={className} aria-label={label} tabIndex={0}>
    {children}
  </section>
);
