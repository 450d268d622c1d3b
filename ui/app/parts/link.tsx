/** @file A link to a page, or plain text where that page is not part of an export. */
import type { ComponentChildren } from "preact";
import { useSource } from "../source.ts";

interface LinkProps {
  readonly to: string;
  readonly class?: string;
  readonly title?: string;
  /** Whether to show nothing, not plain text, where that page is not part of an export. */
  readonly hides?: true;
  readonly children: ComponentChildren;
}

export function Link({ to, hides, children, ...rest }: LinkProps) {
  const href = useSource().href(to);
  if (href === undefined && hides) return null;
  if (href === undefined) return <span {...rest}>{children}</span>;
  return (
    <a href={href} {...rest}>
      {children}
    </a>
  );
}
