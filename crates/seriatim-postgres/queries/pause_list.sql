-- The feeds that are paused.
select feed, since from seriatim.paused order by feed
