-- The number of the next capture, if nobody else makes one before.
select coalesce(max(id), 0) + 1 from seriatim.capture
