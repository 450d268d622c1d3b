/** @file A table in a region that scrolls sideways. */
import type { ComponentChildren } from "preact";
import { Scroll } from "./scroll.tsx";

interface ScrollTableProps {
  readonly label: string;
  readonly className?: string;
  /** The column headers. */
  readonly titles: readonly string[];
  /** The rows. */
  readonly children: ComponentChildren;
}

export const ScrollTable = ({ titles, children, ...region }: ScrollTableProps) => (
  <Scroll {...region}>
    <table>
      <thead>
        <tr>
          {titles.map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </Scroll>
);
