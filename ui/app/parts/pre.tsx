/** @file Preformatted text of any length. Where it scrolls, the keyboard can scroll it too (WCAG 2.1.1). */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface PreProps {
  readonly label: string;
  readonly className?: string;
  readonly children: ComponentChildren;
}

export function Pre({ label, className = "", children }: PreProps) {
  const element = useRef<HTMLPreElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useLayoutEffect(() => {
    const { current } = element;
    if (!current) return;
    const measure = () => setScrolls(current.scrollHeight > current.clientHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, [children]);
  const reachable = scrolls ? { tabIndex: 0, role: "region" as const, "aria-label": label } : {};
  return (
    <pre ref={element} class={className} {...reachable}>
      {children}
    </pre>
  );
}
