"""The planned prefix cache, the price of a token, and a client's difference taken apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.analysis.prefix_cache import (
    Cell,
    Difference,
    Latency,
    Lookup,
    PlannedCache,
    Prompt,
    TokenCosts,
    cached_price,
    difference,
    gap_price,
    hit_rate,
    lookups,
    token_costs,
)
from nlqlib.analysis.stats import Interval
from nlqlib.twin.blocks import HashTable
from nlqlib.twin.drive import drain
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence as InEngine
from nlqlib.twin.step_time import StepTime


def prompt(n: int, start: int = 0, salt: str = "") -> Prompt:
    return Prompt(tuple(range(start, start + n)), salt)


# ---- lookups ---------------------------------------------------------------------------------------------


def test_a_repeated_prompt_of_3300_finds_3296_and_computes_4() -> None:
    found = lookups([prompt(3300), prompt(3300)], 16)
    assert found == (Lookup(3300, 0), Lookup(3300, 3296))
    assert found[1].computed == 4


def test_of_a_prompt_that_ends_with_a_block_the_last_block_is_computed_again() -> None:
    assert lookups([prompt(3296)] * 2, 16)[1] == Lookup(3296, 3280)


def test_a_prompt_shorter_than_a_block_finds_nothing() -> None:
    assert lookups([prompt(10)] * 2, 16) == (Lookup(10, 0), Lookup(10, 0))
    assert lookups([Prompt(())], 16) == (Lookup(0, 0),)


def test_what_begins_alike_is_found_up_to_the_first_block_that_differs() -> None:
    first, second = prompt(1000), Prompt((*range(520), *range(9000, 9480)))
    assert lookups([first, second], 16)[1] == Lookup(1000, 512)


def test_what_stands_behind_a_difference_is_never_found() -> None:
    first, second = prompt(1000), Prompt((-1, *range(1, 1000)))
    assert lookups([first, second], 16)[1].hits == 0


def test_another_salt_finds_nothing() -> None:
    assert lookups([prompt(100, salt="a"), prompt(100, salt="b"), prompt(100, salt="a")], 16)[1:] == (
        Lookup(100, 0),
        Lookup(100, 96),
    )


def test_peeking_remembers_nothing() -> None:
    cache = PlannedCache(16)
    assert cache.peek(prompt(64)).hits == cache.peek(prompt(64)).hits == 0
    assert cache.blocks == 0
    cache.lookup(prompt(64))
    assert (cache.blocks, cache.peek(prompt(64)).hits) == (4, 48)


def test_the_hit_rate_is_over_tokens_and_missing_without_any() -> None:
    assert hit_rate([Lookup(100, 90), Lookup(300, 0)]) == pytest.approx(0.225)
    assert hit_rate([]) is None


def test_a_block_holds_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="at least one"):
        PlannedCache(0)


PIECES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(PIECES, st.sampled_from(["", "x"])), min_size=1, max_size=8),
    st.sampled_from([1, 4, 16, 128]),
)
def test_the_scheduler_of_the_twin_finds_the_same(
    made: list[tuple[list[tuple[int, int]], str]], block: int
) -> None:
    """Prompts that begin alike in every way: the plan and the twin's own block pool agree to the token."""
    prompts = [Prompt(tuple(k for kind, n in pieces for k in [kind] * n), salt) for pieces, salt in made]
    table = HashTable(block)
    replica = Replica(EngineLimits(4096, block_size=block), StepTime(fixed_s=1.0), table)
    found, now = [], 0.0
    for i, one in enumerate(prompts):
        before = replica.scheduler.hits
        replica.submit(InEngine(str(i), len(one.ids), 2, table.chain(one.ids, one.salt)), now)
        drain(replica)
        now += 1000.0
        found.append(Lookup(len(one.ids), replica.scheduler.hits - before))
    assert lookups(prompts, block) == tuple(found)


# ---- the price of a token --------------------------------------------------------------------------------


def line(cached: float, computed: float) -> float:
    return 0.03 + 117e-6 * computed + 0.2e-6 * cached


def cells(*pairs: tuple[float, float]) -> list[Cell]:
    return [Cell(str(i), a, b, line(a, b)) for i, (a, b) in enumerate(pairs)]


def test_both_prices_come_out_where_prompts_differ_in_length() -> None:
    found = token_costs(cells((3286, 14), (1818, 1482), (0, 3300), (1500, 12)))
    assert found is not None and found.cached_s is not None
    assert (found.fixed_s, found.computed_s, found.cached_s) == pytest.approx((0.03, 117e-6, 0.2e-6))
    assert found.freedom == 1
    assert max(map(abs, found.residuals_s)) < 1e-9
    assert found.ttft_s(1000, 2000) == pytest.approx(line(1000, 2000))


def test_prompts_of_one_length_give_no_price_of_a_cached_token() -> None:
    found = token_costs(cells((3286, 14), (1818, 1482), (0, 3300)))
    assert found is not None and found.cached_s is None and found.cached_interval is None
    assert found.computed_s == pytest.approx(116.8e-6)  # what is computed is not cached


def test_the_articles_four_rows_give_117_microseconds() -> None:
    rows = [(0.996, 0.034), (0.993, 0.035), (0.551, 0.206), (0.36, 0.280)]
    found = token_costs([Cell("", 3300 * r, 3300 * (1 - r), t) for r, t in rows])
    assert found is not None and found.computed_interval is not None
    assert found.computed_s == pytest.approx(117.2e-6, rel=0.001)
    assert found.computed_interval.high - found.computed_interval.low < 1e-6


def test_without_a_degree_of_freedom_there_is_no_interval() -> None:
    found = token_costs(cells((3286, 14), (0, 3300)))
    assert found is not None and found.freedom == 0 and found.computed_interval is None


@pytest.mark.parametrize("pairs", [[], [(3286, 14)], [(3286, 14), (3286, 14), (3286, 14)]])
def test_too_little_to_tell_is_no_line(pairs: list[tuple[float, float]]) -> None:
    assert token_costs(cells(*pairs)) is None


def test_a_scattered_fit_has_a_wide_interval_around_its_price() -> None:
    rough = [
        Cell(c.name, c.cached, c.computed, c.ttft_s + e)
        for c, e in zip(
            cells((3286, 14), (1818, 1482), (0, 3300), (1500, 12), (1188, 2112)),
            (0.004, -0.006, 0.003, -0.002, 0.005),
            strict=True,
        )
    ]
    found = token_costs(rough)
    assert found is not None and found.computed_interval is not None
    assert found.computed_interval.low < 117e-6 < found.computed_interval.high


# ---- what one token adds ---------------------------------------------------------------------------------

LONG, BRIEF = Cell("long", 2048.0, 69.75, 0.70909), Cell("brief", 1280.0, 102.4, 0.89158)
"""Two warm prompts on two cores, with blocks of 128 tokens: the shorter one has more left to compute."""
FITTED = TokenCosts(0.1, 8.2e-3, None, Interval(7.9e-3, 8.6e-3), None, (), 3)


def test_the_price_of_a_cached_token_is_what_is_left_without_the_computed_ones() -> None:
    found = cached_price(LONG, BRIEF, FITTED, 0.0)
    assert found is not None
    assert found.value_s == pytest.approx(111e-6, rel=0.01)
    naive = (LONG.ttft_s - BRIEF.ttft_s) / (LONG.cached - BRIEF.cached)
    assert naive == pytest.approx(-238e-6, rel=0.01)


def test_its_interval_holds_computed_tokens_that_cost_nothing_and_those_that_cost_the_most() -> None:
    found = cached_price(LONG, BRIEF, FITTED, 0.0)
    assert found is not None and found.interval is not None and not found.told
    assert found.interval == pytest.approx((-238e-6, 128e-6), rel=0.01)
    wider = cached_price(LONG, BRIEF, FITTED, 0.0768)
    assert wider is not None and wider.interval is not None
    assert wider.interval == pytest.approx((-338e-6, 228e-6), rel=0.01)


def test_two_prompts_that_compute_alike_need_no_fit() -> None:
    found = cached_price(Cell("a", 3000, 14, 0.0342), Cell("b", 1000, 14, 0.0338), FITTED, 1e-4)
    assert found is not None and found.told
    assert (found.value_s, found.interval) == (pytest.approx(2e-7), pytest.approx((1.5e-7, 2.5e-7)))


def test_without_an_interval_no_price_is_told_from_nothing() -> None:
    found = cached_price(LONG, BRIEF, FITTED, None)
    assert found is not None and found.interval is None and not found.told
    assert cached_price(LONG, LONG, FITTED, 0.0) is None


LENGTHS = [2117.3, 2148.8, 2148.5, 2117.8, 2117.8, 1382.4]


def test_gaps_that_scatter_between_cells_tell_no_price_of_context() -> None:
    gaps = [0.1309, 0.1371, 0.1430, 0.1357, 0.1352, 0.1302]  # a prompt computed whole has one of the shortest
    found = gap_price(LENGTHS, gaps)
    assert found is not None and found.value_s == pytest.approx(8.2e-6, rel=0.1)
    assert found.interval is not None and found.interval.low < 0 < found.interval.high and not found.told


def test_gaps_that_follow_the_length_of_the_prompt_tell_its_price() -> None:
    gaps = [0.027 + 1.2e-7 * n + off for n, off in zip(LENGTHS, [1e-7, -1e-7] * 3, strict=True)]
    found = gap_price(LENGTHS, gaps)
    assert found is not None and found.told
    assert found.value_s == pytest.approx(1.2e-7, rel=0.01)


def test_prompts_of_one_length_tell_nothing_of_a_longer_one() -> None:
    assert gap_price([3300.0, 3310.0, 3320.0], [0.027, 0.028, 0.029]) is None
    assert gap_price([], []) is None


# ---- the client's difference -----------------------------------------------------------------------------


def test_the_parts_of_a_difference_add_up_to_it() -> None:
    found = difference(Latency(3.60, 3.50, 0.28, 3.14), Latency(3.23, 3.22, 0.034, 3.11))
    parts = (found.ttft_s, found.decode_s, found.outside_s, found.statistic_s)
    assert found.p50_s == pytest.approx(0.37)
    assert None not in parts and sum(p for p in parts if p is not None) == pytest.approx(0.37)
    assert found.statistic_s == pytest.approx(0.37 - 0.28)
    assert found.explained == pytest.approx(0.246 / 0.37)


def test_what_was_not_seen_is_missing_in_the_difference() -> None:
    found = difference(Latency(3.584, None, 0.206, 3.127), Latency(3.231, None, 0.034, 3.118))
    assert found.p50_s == pytest.approx(0.353) and found.ttft_s == pytest.approx(0.172)
    assert (found.outside_s, found.statistic_s) == (None, None)
    assert difference(Latency(None, None, None, None), Latency(1, 1, 1, 1)) == Difference(*[None] * 5)
    assert Difference(None, 0.1, None, None, None).explained is None


def test_no_share_is_given_of_a_difference_of_next_to_nothing() -> None:
    assert Difference(0.001, 0.0005, None, None, None).explained is None
