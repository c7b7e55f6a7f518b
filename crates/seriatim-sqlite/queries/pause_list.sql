-- The feeds that are paused.
select feed, since from seriatim_paused order by feed
