"""Phenomena of English, each in several wordings: a question reads like a plain one that means the same."""

import pytest

from nlqlib.nlq import cues
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.equality import strict_equal
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.refusal import refusal

CATALOG = load_catalog()

PRESENTED = """
Give me the best overview of revenue by region => revenue by region
I'd like the best possible picture of orders by channel in 2024 => orders by channel in 2024
What's the best summary of refunds per region? => refunds per region
a better picture of our profit by segment => profit by segment
your best guess at revenue by channel for 2024 => revenue by channel for 2024
the best estimate of net revenue per quarter => net revenue per quarter
the biggest possible picture: sales by region => sales by region
in the greatest possible detail, revenue by product => revenue by product
the most accurate numbers for orders by region => orders by region
the most useful breakdown of units by product => units by product
the best breakdown of net revenue by category => net revenue by category
best look at the profit per category in 2024 => profit per category in 2024
the latest and greatest numbers: revenue by region => revenue by region
overview of the best channels by revenue => best channels by revenue
a summary of the top 3 regions by orders => top 3 regions by orders
the best view of the top 5 products by units => top 5 products by units
Which region has the best profit? => which region has the highest profit?
the most detailed picture of the worst regions by refunds => regions with the highest refunds
"""
DENIED = """
orders by region, not revenue => orders by region
orders by region and not revenue => orders by region
orders by region, not revenue by region => orders by region
by channel and not by region, show me revenue => revenue by channel
revenue by channel, not region => revenue by channel
I want profit, not revenue => profit
profit by category rather than revenue => profit by category
revenue by category instead of region => revenue by category
orders by region as opposed to revenue => orders by region
revenue by region as opposed to by channel => revenue by region
units by product, but not revenue => units by product
refunds by region; don't show me revenue => refunds by region
orders by region (not revenue) => orders by region
the top 5 products by units, not by revenue => top 5 products by units
profit and units by region, not revenue => profit and units by region
monthly, not weekly, revenue => monthly revenue
orders by region, not just revenue => orders and revenue by region
orders by region, not West => orders by region, excluding West
orders by channel, no region recorded => orders by channel without a region
"""
SORTED = """
revenue by day, highest day first => revenue by day, highest first
revenue per month in 2024, largest month first => revenue per month in 2024, largest first
orders by week, busiest week first => orders by week, sorted by orders descending
weekly orders, biggest weeks first => weekly orders, highest first
quarterly revenue with the highest quarter first => quarterly revenue, highest first
quarterly revenue, the weakest quarter first => quarterly revenue, lowest first
sales per week, lowest week at the top => sales per week, lowest first
orders by month, beginning with the best month => orders by month, highest first
yearly refunds from smallest to largest => yearly refunds, lowest first
orders by region, largest to smallest => orders by region, highest first
profit by category, best one first => profit by category, highest first
return rate by channel, best first => return rate by channel, lowest first
refunds by region, worst first => refunds by region, highest first
revenue by region, biggest region at the top => revenue by region, highest first
"""
PLACES = """
top category and channel pair by profit => top category and channel combination by profit
the top pair of regions by revenue => top 2 regions by revenue
which clients ordered most often in 2024? => which customers had the most orders in 2024
which channels bring in more than $300 per order? => channels with AOV above 300 dollars
Which of Web and Store has the bigger orders, AOV I mean? => Which of Web and Store has the bigger AOV?
revenue, order count and units in 2024 => revenue, orders and units in 2024
our most popular toys => top products by units for Toys
the 3 most profitable electronics => top 3 products by profit for Electronics
"""
PAIRS = [
    tuple(line.split(" => "))
    for block in (PRESENTED, DENIED, SORTED, PLACES)
    for line in block.strip().splitlines()
]


def reading(question: str) -> Intent:
    found = cues.read(question, CATALOG).intent
    assert found is not None, question
    return found


@pytest.mark.parametrize(("question", "plain"), PAIRS)
def test_it_reads_like_the_plain_question(question: str, plain: str) -> None:
    assert refusal(question, CATALOG) is None
    found, wanted = reading(question), reading(plain)
    assert strict_equal(found, wanted, CATALOG), (found.text(), wanted.text())


@pytest.mark.parametrize("line", SORTED.strip().splitlines())
def test_a_sort_has_no_limit_and_ranks_nothing(line: str) -> None:
    found = reading(line.split(" => ")[0])
    assert found.limit is None and found.sort is not None and found.query_type != "top_n_by_metric"


@pytest.mark.parametrize("question", ["which month had the highest revenue?", "the 3 best months by profit"])
def test_a_ranked_time_unit_keeps_its_limit(question: str) -> None:
    assert reading(question).limit in (1, 3)


HARMLESS = """
top-level revenue by region | revenue by region
my best guess is that Web leads, so show revenue by channel | revenue by channel
first thing tomorrow I need orders by region | orders by region
most of the time we look at refunds by channel | refunds by channel
at the very least, give me units by category | units by category
last but not least, profit by segment | profit by segment
for the most part I care about revenue by region | revenue by region
the lowest common denominator: orders by channel | orders by channel
leading up to the board meeting, revenue by region in 2024 | revenue by region in 2024
the number one question is revenue by segment | revenue by segment
in the best case I get revenue by region and channel | revenue by region and channel
revenue by region, highest priority | revenue by region
top of the agenda: net revenue by category | net revenue by category
the bottom-line profit by region | profit by region
best regards, and please send revenue by month | revenue by month
above all, orders by week | orders by week
most importantly, refunds by reason | refunds by reason
"""


@pytest.mark.parametrize("line", HARMLESS.strip().splitlines())
def test_a_right_answer_survives_words_that_only_look_like_a_ranking(line: str) -> None:
    question, plain = line.split(" | ")
    raw = reading(plain)
    assert cues.correct(question, raw, CATALOG)[0] is raw
