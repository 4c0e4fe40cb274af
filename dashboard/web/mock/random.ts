// Numbers that look random and are always the same.

/** A number in [0, 1) for each list of whole numbers. */
export function uniform(...parts: number[]): number {
  let hash = 0x9e3779b9;
  for (const part of parts) {
    hash = Math.imul(hash ^ (part | 0), 0x85ebca6b);
    hash ^= hash >>> 13;
    hash = Math.imul(hash, 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return (hash >>> 0) / 2 ** 32;
}

/** Normally distributed, by Box and Muller. */
export function normal(...parts: number[]): number {
  const radius = Math.sqrt(-2 * Math.log(1 - uniform(...parts, 1)));
  return radius * Math.cos(2 * Math.PI * uniform(...parts, 2));
}

/** Hexadecimal digits for ids. */
export function digits(length: number, ...parts: number[]): string {
  let text = "";
  for (let at = 0; text.length < length; at += 1)
    text += Math.floor(uniform(...parts, at) * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  return text.slice(0, length);
}
