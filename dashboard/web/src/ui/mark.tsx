// The mark: streams that join.

/** The product's mark in the current text colour. */
export function Mark() {
  return (
    <svg
      class="mark"
      viewBox="0 0 32 32"
      width="24"
      height="24"
      fill="none"
      stroke="currentColor"
      stroke-width="3"
      stroke-linecap="round"
      aria-hidden="true"
    >
      <path d="M5 4c0 9 11 8 11 17v7" />
      <path d="M16 3v14" opacity=".7" />
      <path d="M27 4c0 9-11 8-11 17" opacity=".45" />
    </svg>
  );
}
