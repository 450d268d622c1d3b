/**
 * @file A field whose text is searched for on Enter, or when the field loses focus. Until then, re-rendering keeps the
 * typed text.
 */
import { useEffect, useState } from "preact/hooks";

interface SearchBoxProps {
  readonly label: string;
  readonly placeholder: string;
  /** What is searched for now. */
  readonly text: string;
  readonly onSearch: (text: string) => void;
}

export function SearchBox({ label, placeholder, text, onSearch }: SearchBoxProps) {
  const [draft, setDraft] = useState(text);
  useEffect(() => setDraft(text), [text]);
  return (
    <input
      type="search"
      placeholder={placeholder}
      aria-label={label}
      value={draft}
      onInput={({ currentTarget }) => setDraft(currentTarget.value)}
      onChange={({ currentTarget }) => onSearch(currentTarget.value)}
    />
  );
}
