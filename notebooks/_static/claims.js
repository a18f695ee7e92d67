/* Filters for the claims table. Without this script the table is whole: nothing is hidden by style alone. */
(() => {
  "use strict";
  const NAMES = { target: "Target", verdict: "Verdict", section: "Section" };

  const words = (value) => value.replaceAll("-", " ");

  function select(name, values, chosen, changed) {
    const label = document.createElement("label");
    label.textContent = `${NAMES[name]} `;
    const box = document.createElement("select");
    box.name = name;
    for (const value of ["", ...values]) {
      const text = name === "verdict" ? words(value) : value;
      box.add(new Option(value ? text : "all", value, false, value === chosen));
    }
    box.addEventListener("change", changed);
    label.append(box);
    return label;
  }

  function equip(table) {
    const rows = [...table.tBodies[0].rows];
    const asked = new URLSearchParams(location.search);
    const bar = document.createElement("form");
    const count = document.createElement("output");
    bar.className = "claims-filters";
    bar.setAttribute("aria-label", "Show only some claims");
    bar.addEventListener("submit", (event) => event.preventDefault());

    function apply() {
      const wanted = [...new FormData(bar)].filter(([, value]) => value);
      let shown = 0;
      for (const row of rows) {
        row.hidden = !wanted.every(([name, value]) => row.dataset[name] === value);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
      const query = new URLSearchParams(wanted).toString();
      history.replaceState(null, "", `${location.pathname}${query ? `?${query}` : ""}${location.hash}`);
    }

    for (const name of Object.keys(NAMES)) {
      const values = [...new Set(rows.map((row) => row.dataset[name]))].filter(Boolean);
      if (values.length > 1) bar.append(select(name, values, asked.get(name), apply));
    }
    bar.append(count);
    (table.closest(".wide") || table).before(bar);
    apply();
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.claims-table").forEach(equip);
  });
})();
