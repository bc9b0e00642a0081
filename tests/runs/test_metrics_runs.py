"""Metrics of real runs, followed and not."""

from __future__ import annotations

import json

from rankdeck_runs.engine import Engine
from rankdeck_runs.metrics.book import MetricsBook
from runs.waiting import LIMIT, finished, launched, wait_for

SOURCE = """
bar = ''.join('\\r %d%%|# | %d/50 [00:01<00:12, 8.00it/s]' % (2 * step, step) for step in range(51))
for step in range(STEPS):
    print('step', step, 'cost', RANK + step, 'loss', 1 / (step + 1), flush=True)
    while step == 5 and not os.path.exists('go'):
        time.sleep(0.05)
sys.stderr.write(bar + '\\n')
"""


def test_metrics_come_while_the_run_goes_on_and_are_whole_at_its_end(engine, home, program, pool, tmp_path):
    profile = program(SOURCE.replace("STEPS", "40"), metrics={"cost": r"cost (\d+)"})
    live = engine.attach(launched(engine, profile, pool))
    wait_for(live, lambda _: live.metrics.counts("loss") == [6] * 4, "six losses of each rank")
    (tmp_path / "go").touch()
    finished(live)
    assert live.metrics.counts("loss") == [40] * 4
    assert [one.last for one in live.metrics.of("cost").values()] == [39, 40, 41, 42]
    assert live.metrics.of("it/s")[3].last_x == 50
    lines = (live.path / "metrics.jsonl").read_text().splitlines()
    points = [json.loads(line) for line in lines]
    assert len({(point["log"], point["at"]) for point in points}) == len(points) >= 160
    assert any("t" in point for point in points)


def test_another_rankdeck_finds_the_same_without_writing_anything_twice(
    engine, home, program, pool, tmp_path
):
    (tmp_path / "go").touch()
    live = engine.attach(launched(engine, program(SOURCE.replace("STEPS", "20")), pool))
    finished(live)
    before = (live.path / "metrics.jsonl").read_bytes()
    book = MetricsBook(live.path)
    assert book.update(seconds=LIMIT)
    assert book.counts("loss") == [20] * 4
    assert (live.path / "metrics.jsonl").read_bytes() == before


def test_a_follower_that_was_gone_goes_on_where_it_was(engine, home, program, pool, tmp_path):
    live = engine.attach(launched(engine, program(SOURCE.replace("STEPS", "30")), pool))
    wait_for(live, lambda _: live.metrics.counts("loss") == [6] * 4, "six losses of each rank")
    engine.close()
    (tmp_path / "go").touch()
    again = Engine(home)
    try:
        live = again.attach(live.run_id)
        finished(live)
        assert live.metrics.counts("loss") == [30] * 4
    finally:
        again.close()
