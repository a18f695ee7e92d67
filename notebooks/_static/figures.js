/* Points of a figure, read by pointer or by arrow keys. Without this script the figure and its table are whole. */
(() => {
  "use strict";
  const NEAR_PX = 28;
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

  /* The picture that a folded table belongs to: the last one before it. */
  function pictureOf(holder) {
    const pictures = [...document.querySelectorAll(".bd-article .cell_output img, .story-figure img")];
    const before = (img) => img.compareDocumentPosition(holder) & Node.DOCUMENT_POSITION_FOLLOWING;
    return pictures.filter(before).pop();
  }

  function part(name, role) {
    const made = document.createElement("div");
    made.className = name;
    if (role) {
      made.setAttribute("role", role);
    }
    return made;
  }

  function equip(holder) {
    const points = JSON.parse(holder.dataset.points);
    const picture = pictureOf(holder);
    if (!picture || picture.closest(".figure-read")) {
      return;
    }
    const frame = part("figure-read", "group");
    frame.tabIndex = 0;
    frame.setAttribute("aria-label", `${points.length} points of the figure: arrow keys read them one by one`);
    const held = picture.closest("a") || picture;
    held.before(frame);
    const dot = part("figure-dot");
    const tip = part("figure-tip", "status");
    frame.append(held, dot, tip);
    let at = -1;

    function show(index) {
      at = index;
      frame.classList.toggle("reading", at >= 0);
      if (at < 0) {
        tip.textContent = "";
        return;
      }
      const [left, top, text] = points[at];
      tip.textContent = text;
      dot.style.left = `${left}%`;
      dot.style.top = `${top}%`;
      tip.style.left = left > 50 ? "auto" : `calc(${left}% + 10px)`;
      tip.style.right = left > 50 ? `calc(${100 - left}% + 10px)` : "auto";
      tip.style.top = top > 50 ? "auto" : `calc(${top}% + 10px)`;
      tip.style.bottom = top > 50 ? `calc(${100 - top}% + 10px)` : "auto";
    }

    frame.addEventListener("pointermove", (event) => {
      const box = frame.getBoundingClientRect();
      let nearest = -1;
      let least = NEAR_PX;
      points.forEach(([left, top], index) => {
        const dx = event.clientX - box.left - (left * box.width) / 100;
        const dy = event.clientY - box.top - (top * box.height) / 100;
        const far = Math.hypot(dx, dy);
        if (far < least) {
          [nearest, least] = [index, far];
        }
      });
      if (nearest !== at) {
        show(nearest);
      }
    });
    frame.addEventListener("pointerleave", () => show(-1));
    frame.addEventListener("blur", () => show(-1));
    frame.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        show(-1);
      } else if (event.key in STEPS) {
        const from = at < 0 && STEPS[event.key] < 0 ? 0 : at;
        show((from + STEPS[event.key] + points.length) % points.length);
        event.preventDefault();
      }
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".figure-points").forEach(equip);
  });
})();
