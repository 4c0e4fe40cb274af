// Tooltips: the text of `data-tip`, at the pointer, at the finger, or at the element that has the focus. The browser's
// own `title` comes late and never on a touch screen.

import { useEffect, useRef, useState } from "preact/hooks";

/** How long a tip of a touch stays, in milliseconds. */
const TOUCH_MS = 2_500;
/** Distance from the pointer, in pixels. */
const GAP = 14;
const ID = "tip";

interface Tip {
  text: string;
  x: number;
  y: number;
}

/** The one tooltip of the page. It finds its elements by their attribute, in drawings and tables alike. */
export function Tips() {
  const [tip, set] = useState<Tip>();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let described: Element | undefined;
    const of = (target: EventTarget | null) => (target instanceof Element ? target.closest("[data-tip]") : null);
    const hide = () => {
      clearTimeout(timer);
      described?.removeAttribute("aria-describedby");
      described = undefined;
      set(undefined);
    };
    const at = (element: Element, x: number, y: number) => {
      const text = element.getAttribute("data-tip");
      if (text) set({ text, x, y });
      else hide();
    };
    const moved = (event: PointerEvent) => {
      const element = of(event.target);
      if (!element) return hide();
      at(element, event.clientX, event.clientY);
      clearTimeout(timer);
      if (event.pointerType === "touch") timer = setTimeout(hide, TOUCH_MS);
    };
    const focused = (event: FocusEvent) => {
      const element = of(event.target);
      if (!element?.matches(":focus-visible")) return;
      const { left, bottom } = element.getBoundingClientRect();
      at(element, left, bottom - GAP);
      element.setAttribute("aria-describedby", ID);
      described = element;
    };
    // What was pressed may say something else now, or be gone.
    const clicked = ({ target, clientX, clientY }: MouseEvent) => {
      const element = of(target);
      if (element) requestAnimationFrame(() => (element.isConnected ? at(element, clientX, clientY) : hide()));
    };
    const pressed = (event: KeyboardEvent) => event.key === "Escape" && hide();
    document.addEventListener("pointermove", moved);
    document.addEventListener("pointerdown", moved);
    document.addEventListener("pointerleave", hide);
    document.addEventListener("focusin", focused);
    document.addEventListener("focusout", hide);
    document.addEventListener("keydown", pressed);
    document.addEventListener("click", clicked);
    window.addEventListener("scroll", hide, { capture: true, passive: true });
    window.addEventListener("hashchange", hide);
    return () => {
      hide();
      document.removeEventListener("pointermove", moved);
      document.removeEventListener("pointerdown", moved);
      document.removeEventListener("pointerleave", hide);
      document.removeEventListener("focusin", focused);
      document.removeEventListener("focusout", hide);
      document.removeEventListener("keydown", pressed);
      document.removeEventListener("click", clicked);
      window.removeEventListener("scroll", hide, { capture: true });
      window.removeEventListener("hashchange", hide);
    };
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || !tip) return;
    const { x, y } = placed(tip, element.offsetWidth, element.offsetHeight);
    // A style of its own would break the content-security policy in markup; from a script it is allowed.
    element.style.transform = `translate(${x}px, ${y}px)`;
  });
  return (
    <div id={ID} class="tip" role="tooltip" ref={box} hidden={tip === undefined}>
      {tip?.text}
    </div>
  );
}

/** Below and right of the pointer, or on its other side where the window ends. */
function placed({ x, y }: Tip, width: number, height: number): { x: number; y: number } {
  const right = x + GAP + width > window.innerWidth;
  const below = y + GAP + height > window.innerHeight;
  return {
    x: Math.max(4, right ? x - GAP - width : x + GAP),
    y: Math.max(4, below ? y - GAP - height : y + GAP),
  };
}
