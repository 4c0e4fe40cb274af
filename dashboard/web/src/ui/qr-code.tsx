// A text as a QR code.

import { generate } from "lean-qr";
import { useMemo } from "preact/hooks";

/** Light modules around the code, which readers need. */
const QUIET = 4;

/** Dark on white in both themes: many readers do not find the inverse. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { size, path } = useMemo(() => {
    const code = generate(text);
    let path = "";
    for (let y = 0; y < code.size; y += 1) {
      for (let x = 0; x < code.size; x += 1) {
        if (code.get(x, y)) path += `M${x + QUIET} ${y + QUIET}h1v1h-1z`;
      }
    }
    return { size: code.size + 2 * QUIET, path };
  }, [text]);
  return (
    <svg class="qr-code" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
