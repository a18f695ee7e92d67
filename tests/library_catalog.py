"""Another trade for the grammar: a city library that lends books. No word of it stands in the code."""

LIBRARY = """
today = 2024-09-10
first_day = 2022-01-01
week_start = "Monday"
time_zone = "Europe/Berlin"
currency = "EUR"

[facts.loan]
source = "loans AS l JOIN books AS b ON b.id = l.book"
time = "l.lent_at"
dimensions = { branch = "l.branch", genre = "b.genre", reader_group = "l.reader_group", title = "b.title" }

[facts.fine]
source = "fines AS f"
time = "f.paid_at"
dimensions = { branch = "f.branch", fine_reason = "f.reason" }

[measures]
loans = { fact = "loan", value = "count(*)" }
readers = { fact = "loan", value = "count(DISTINCT l.reader)" }
late = { fact = "loan", value = "count(*) FILTER (WHERE l.late)" }
fines = { fact = "fine", value = "sum(f.amount)" }

[metrics.loans]
measure = "loans"
description = "books lent"
unit = "count"
good = "high"
synonyms = ["checkouts", "borrowings", "books lent", "lendings", "busy", "popular", "borrowed"]

[metrics.readers]
measure = "readers"
description = "readers with a loan"
unit = "count"
good = "high"
synonyms = ["borrowers", "patrons", "number of readers"]

[metrics.late_rate]
ratio = ["late", "loans"]
description = "share of loans that came back late"
unit = "ratio"
good = "low"
synonyms = ["overdue rate", "share of late loans", "lateness"]

[metrics.fines]
measure = "fines"
description = "money paid as fines"
unit = "money"
good = "low"
synonyms = ["penalties", "late fees", "charges"]

[dimensions.branch]
description = "library branch"
nullable = true
synonyms = ["library", "location", "where"]
values = ["Main Library", "Harbour", "Old Town", "North End"]

[dimensions.genre]
description = "genre of the book"
synonyms = ["kind of book", "subject"]
values = ["Crime", "Poetry", "History", "Children's", "Top Picks"]

[dimensions.reader_group]
description = "group of the reader"
synonyms = ["audience", "membership"]
values = ["Adult", "Student", "Senior", "Child"]

[dimensions.title]
description = "one book"
synonyms = ["book"]
values = ["Dune", "Emma", "The Odyssey"]

[dimensions.fine_reason]
description = "why the fine was due"
synonyms = ["cause"]
values = ["Late Return", "Lost", "Torn"]
"""
