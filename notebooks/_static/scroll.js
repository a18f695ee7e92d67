/* What scrolls by itself can be reached by keyboard: boxes wider than the screen get a place in the tab order. */
(() => {
  "use strict";
  function reach() {
    for (const box of document.querySelectorAll(".cell_output, .story-figure, .bd-article pre, .bd-article div.math")) {
      const wide = box.scrollWidth > box.clientWidth + 1;
      if (wide && !box.hasAttribute("tabindex")) {
        box.tabIndex = 0;
      }
    }
  }
  addEventListener("load", reach);
  addEventListener("resize", reach);
})();
