"""`validate-diagnosis`: how often the diagnosis is right, counted anew in a world whose limits are known."""

import json
from collections import Counter

from nlqlib.experiments.diagnose_rates import JUDGED, cases
from nlqlib.experiments.diagnose_rates_page import RETAINED, document, page, retained, rows, write


def run(keep: bool, as_json: bool) -> int:
    """Count, print the page's text or the document; 1 where the retained counts differ, unless `keep`."""
    found = document(cases())
    if keep:
        write(found)
    print(json.dumps(found, indent=1, ensure_ascii=False) if as_json else page(found))
    if keep or not RETAINED.is_file() or found == retained():
        return 0
    old, new = (Counter(c["judged"] for c in rows(d)) for d in (retained(), found))
    told = ", ".join(f"{name} {old[name]} → {new[name]}" for name in JUDGED)
    print(f"\nnot what is retained: {told}; --keep retains the new counts")
    return 1
