"""Bringing what a record lacks, once: for a command that shows it, or until all of it is here."""

from __future__ import annotations

from rankdeck_runs.collection import CopyState, Kept
from rankdeck_runs.errors import UnwrittenError
from rankdeck_runs.follow import RunFollower
from rankdeck_runs.links import Links
from rankdeck_runs.live import LiveRun
from rankdeck_runs.patience import PatientAsker, within
from rankdeck_runs.record import Record
from rankdeck_runs.targets import read_targets

WITHOUT_LIMIT = float("inf")


async def sync(links: Links, record: Record, limit: float, asker: PatientAsker | None) -> bool:
    """Bring every event and log byte that the record lacks. See `Engine.sync`.

    Raises:
        UnwrittenError: the record can't be written.
    """
    live, offset = _view(record)
    if live.snapshot().complete:
        record.refresh_summary(live.snapshot())
        return True
    return await _catch_up(RunFollower(record, live, offset, links, read_targets(record)), limit, asker)


async def collect(links: Links, record: Record, asker: PatientAsker | None) -> Kept:
    """Bring every log that the record lacks, also of a run that was complete once. See `Engine.collect`.

    Raises:
        UnwrittenError: the record can't be written.
    """
    live, offset = _view(record)
    targets = read_targets(record)
    known = {node.node: node for node in record.kept(live.snapshot()).nodes}
    for target in targets.nodes:
        # Files may have gone from the record since they were brought.
        target.fetched = target.fetched and (known[target.name].state is not CopyState.LOST or target.missing)
    if not all(target.fetched for target in targets.nodes):
        await _catch_up(RunFollower(record, live, offset, links, targets), WITHOUT_LIMIT, asker)
    return record.kept(live.snapshot())


def _view(record: Record) -> tuple[LiveRun, int]:
    fold, offset = record.fold_and_offset()
    return LiveRun(record.id, record.path, fold), offset


async def _catch_up(follower: RunFollower, limit: float, asker: PatientAsker | None) -> bool:
    record, live = follower.writer.record, follower.writer.live
    try:
        all_here = await within(follower.sync(), limit, asker)
    except TimeoutError:
        all_here = False
    except OSError as error:
        raise UnwrittenError(record.path, error.strerror or str(error)) from None
    if live.unwritten:
        raise UnwrittenError(record.path, live.unwritten)
    return all_here
